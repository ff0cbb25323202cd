"""RayFed's arguments: each key becomes a setting, a note, or a refusal that says what to use."""

from __future__ import annotations

import pytest

from fed import errors
from fed.config import layers, rayfed_compat


def comm(**keys):
    return {"config": {"cross_silo_comm": keys}}


def test_the_usual_script_of_rayfed():
    arguments = {
        "addresses": {"alice": "127.0.0.1:11012", "bob": "127.0.0.1:11011"},
        "party": "alice",
        "job_name": "test_job",
        "logging_level": "debug",
        "tls_config": {"ca_cert": "/c/ca.crt", "cert": "/c/s.crt", "key": "/c/s.key"},
        "config": {
            "cross_silo_comm": {
                "timeout_in_ms": 5000,
                "messages_max_size_in_bytes": 1000,
                "exit_on_sending_failure": True,
                "expose_error_trace": True,
                "serializing_allowed_list": {
                    "numpy": ["ndarray", "dtype"], "clinic.models": ["*"], "other": None,
                },
            },
            "barrier_on_initializing": True,
        },
    }  # fmt: skip
    layer = layers.from_init(arguments)
    values = {name: entry.value for name, entry in layer.entries.items()}
    assert values["party"] == "alice"
    assert values["log_level"] == "debug"
    assert values["peer_timeout_s"] == 5.0
    assert values["max_value_bytes"] == 1000
    assert values["error_detail"] == "traceback"
    assert values["codec_pickle"] == ("numpy.ndarray", "numpy.dtype", "clinic.models", "other")
    assert str(values["tls_key"]) == "/c/s.key"
    assert len(layer.notes) == 2
    assert "exit_on_sending_failure has no effect" in layer.notes[0] + layer.notes[1]


def test_arguments_are_not_changed():
    arguments = {**comm(timeout_in_ms=1), "tls_config": {"cert": "c"}}
    rayfed_compat.translate(arguments)
    assert arguments == {**comm(timeout_in_ms=1), "tls_config": {"cert": "c"}}


@pytest.mark.parametrize("table", [rayfed_compat.CROSS_SILO_COMM, rayfed_compat.CONFIG])
def test_every_default_that_is_written_out_counts_as_not_given(table):
    for key, rule in table.items():
        inner = {key: rule.default}
        config = {"cross_silo_comm": inner} if table is rayfed_compat.CROSS_SILO_COMM else inner
        ours, notes = rayfed_compat.translate({"config": config})
        assert (ours, notes) == ({}, ())


def test_every_rule_says_what_becomes_of_a_value():
    rules = [
        *rayfed_compat.CROSS_SILO_COMM.values(),
        *rayfed_compat.CONFIG.values(),
        *rayfed_compat.ARGUMENTS.values(),
    ]
    for rule in rules:
        assert sum((rule.setting is not None, bool(rule.holds), bool(rule.instead))) == 1
        assert (rule.setting is None) == (rule.convert is None)


@pytest.mark.parametrize(
    ("arguments", "key", "text"),
    [
        (comm(http_header={"a": "b"}), "config.cross_silo_comm.http_header", "certificate"),
        (comm(max_concurrency=8), "config.cross_silo_comm.max_concurrency", "proxy actors"),
        (
            comm(send_resource_label={"a": 1}),
            "config.cross_silo_comm.send_resource_label",
            "listen",
        ),
        (
            comm(recv_resource_label={"a": 1}),
            "config.cross_silo_comm.recv_resource_label",
            "listen",
        ),
        (comm(proxy_max_restarts=3), "config.cross_silo_comm.proxy_max_restarts", "resumed"),
        (
            comm(grpc_channel_options=[("a", 1)]),
            "config.cross_silo_comm.grpc_channel_options",
            "max_value_bytes",
        ),
        (comm(grpc_retry_policy={}), "config.cross_silo_comm.grpc_retry_policy", "peer_timeout_s"),
        (comm(timeout_ms=1), "config.cross_silo_comm.timeout_ms", "did you mean 'timeout_in_ms'"),
        (comm(timeout_in_ms="1 s"), "config.cross_silo_comm.timeout_in_ms", "milliseconds"),
        (comm(expose_error_trace=1), "config.cross_silo_comm.expose_error_trace", "true or false"),
        (comm(use_global_proxy="no"), "config.cross_silo_comm.use_global_proxy", "true or false"),
        (
            comm(serializing_allowed_list={"*": ["*"]}),
            "config.cross_silo_comm.serializing_allowed_list",
            "every pickle",
        ),
        (
            comm(serializing_allowed_list=["numpy"]),
            "config.cross_silo_comm.serializing_allowed_list",
            "mapping",
        ),
        ({"config": {"barrier": True}}, "config.barrier", "barrier_on_initializing"),
        ({"config": {"cross_silo_com": {}}}, "config.cross_silo_com", "cross_silo_comm"),
        ({"config": 7}, "config", "no mapping"),
        ({"config": {"cross_silo_comm": 7}}, "config.cross_silo_comm", "no mapping"),
        ({"tls_config": {"ca_crt": "x"}}, "tls_config.ca_crt", "did you mean 'ca_cert'"),
        ({"tls_config": {"ca_cert": "x"}, "tls": {"cert": "y"}}, "tls_config", "given twice"),
        ({"logging_level": "info", "log_level": "info"}, "logging_level", "given twice"),
        (
            {**comm(timeout_in_ms=1), "peer_timeout_s": 1},
            "config.cross_silo_comm.timeout_in_ms",
            "given twice",
        ),
        ({"sender_proxy_cls": object}, "sender_proxy_cls", "plugged in"),
    ],
)
def test_what_is_refused_says_what_to_use(arguments, key, text):
    with pytest.raises(errors.ConfigError) as caught:
        rayfed_compat.translate(arguments)
    assert caught.value.key == key
    assert caught.value.source == "fed.init"
    assert text in str(caught.value)
