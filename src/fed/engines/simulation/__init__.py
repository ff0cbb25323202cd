"""All parties in one process, thousands to a million of them: a party is a row.

Bodies run at `.remote()`, results are sealed and kept in their fed objects, reference counting
frees them. No thread, queue, message or socket here, and neither Ray nor a network.
"""
