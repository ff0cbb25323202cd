/* The least that a copy over TLS costs: one process writes, the other reads, over loopback.
 *
 *     copy FOLDER BYTES
 *
 * FOLDER holds ca.pem and, of ALICE who sends and BOB who receives, NAME.pem and NAME.key. TLS 1.3
 * with certificates of both sides and AES-256-GCM; one buffer of 1 MiB at either side, used again
 * and again. Prints seconds of the clock and of either side's CPU, from after the handshake until
 * the receiver has said that it has all.
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BUFFER = 1 << 20 };
static char buffer[BUFFER];

static void need(int holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "copy: %s failed\n", what);
    ERR_print_errors_fp(stderr);
    exit(1);
}

static double clock_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static double cpu_s(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6;
}

static SSL *session(int socket, int accepts, const char *folder, const char *party) {
    char path[4096];
    SSL_CTX *context = SSL_CTX_new(accepts ? TLS_server_method() : TLS_client_method());
    need(context != NULL, "SSL_CTX_new");
    need(SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1, "TLS 1.3");
    need(SSL_CTX_set_ciphersuites(context, "TLS_AES_256_GCM_SHA384") == 1, "the cipher suite");
    snprintf(path, sizeof path, "%s/%s.pem", folder, party);
    need(SSL_CTX_use_certificate_chain_file(context, path) == 1, path);
    snprintf(path, sizeof path, "%s/%s.key", folder, party);
    need(SSL_CTX_use_PrivateKey_file(context, path, SSL_FILETYPE_PEM) == 1, path);
    snprintf(path, sizeof path, "%s/ca.pem", folder);
    need(SSL_CTX_load_verify_locations(context, path, NULL) == 1, path);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    SSL *made = SSL_new(context);
    need(made != NULL && SSL_set_fd(made, socket) == 1, "SSL_new");
    need((accepts ? SSL_accept(made) : SSL_connect(made)) == 1, "the handshake");
    return made;
}

static int receive(int listener, const char *folder, size_t total) {
    SSL *from = session(accept(listener, NULL, NULL), 1, folder, "BOB");
    double cpu = cpu_s();
    for (size_t got = 0, count; got < total; got += count)
        need(SSL_read_ex(from, buffer, BUFFER, &count) == 1, "reading");
    cpu = cpu_s() - cpu;
    size_t count;
    need(SSL_write_ex(from, &cpu, sizeof cpu, &count) == 1, "answering");
    return 0;
}

static int send_all(int socket, const char *folder, size_t total) {
    SSL *to = session(socket, 0, folder, "ALICE");
    double cpu = cpu_s(), began = clock_s(), theirs = 0;
    size_t count;
    for (size_t sent = 0; sent < total; sent += count) {
        size_t size = total - sent < BUFFER ? total - sent : BUFFER;
        need(SSL_write_ex(to, buffer, size, &count) == 1, "writing");
    }
    need(SSL_read_ex(to, &theirs, sizeof theirs, &count) == 1, "the answer");
    printf("%.9f %.9f %.9f\n", clock_s() - began, cpu_s() - cpu, theirs);
    return 0;
}

int main(int count, char **words) {
    if (count != 3) return fprintf(stderr, "usage: copy FOLDER BYTES\n"), 2;
    size_t total = strtoull(words[2], NULL, 10);
    memset(buffer, 7, BUFFER);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0), to = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    need(bind(listener, (struct sockaddr *)&address, size) == 0 && listen(listener, 1) == 0 &&
             getsockname(listener, (struct sockaddr *)&address, &size) == 0,
         "listening");
    pid_t child = fork();
    need(child >= 0, "fork");
    if (child == 0) return receive(listener, words[1], total);
    need(connect(to, (struct sockaddr *)&address, size) == 0, "connecting");
    setsockopt(to, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    int result = send_all(to, words[1], total), status;
    waitpid(child, &status, 0);
    return result != 0 || status != 0;
}
