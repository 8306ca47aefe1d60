// What <openssl/ssl.h> offers as macros, as functions that Swift can see.
#ifndef NIGHTJAR_CONNECTIONS_H
#define NIGHTJAR_CONNECTIONS_H

#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <openssl/x509_vfy.h>

// Nothing older than TLS 1.2, no compression, no renegotiation, our order of ciphers before the peer's.
static inline int nightjar_ssl_ctx_harden(SSL_CTX *ctx) {
    SSL_CTX_set_options(ctx, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE |
                                 SSL_OP_PRIORITIZE_CHACHA | SSL_OP_NO_SSLv3 | SSL_OP_NO_TLSv1 | SSL_OP_NO_TLSv1_1);
    SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_AUTO_RETRY);
    return SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) == 1 && SSL_CTX_set_max_proto_version(ctx, 0) == 1;
}

static inline int nightjar_ssl_ctx_min_version(SSL_CTX *ctx, int version) { return (int)SSL_CTX_set_min_proto_version(ctx, version); }
static inline int nightjar_ssl_ctx_max_version(SSL_CTX *ctx, int version) { return (int)SSL_CTX_set_max_proto_version(ctx, version); }
static inline int nightjar_ssl_ctx_groups(SSL_CTX *ctx, const char *names) { return (int)SSL_CTX_set1_groups_list(ctx, names); }
static inline void nightjar_ssl_ctx_no_tickets(SSL_CTX *ctx) { SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET); }
static inline void nightjar_ssl_ctx_cache_mode(SSL_CTX *ctx, long mode) { SSL_CTX_set_session_cache_mode(ctx, mode); }
static inline void nightjar_ssl_ctx_cache_size(SSL_CTX *ctx, long count) { SSL_CTX_sess_set_cache_size(ctx, count); }
static inline void nightjar_ssl_ctx_max_chain_bytes(SSL_CTX *ctx, long bytes) { SSL_CTX_set_max_cert_list(ctx, bytes); }
static inline int nightjar_ssl_ctx_add_chain(SSL_CTX *ctx, X509 *certificate) { return (int)SSL_CTX_add1_chain_cert(ctx, certificate); }
static inline int nightjar_ssl_set_server_name(SSL *ssl, const char *name) { return (int)SSL_set_tlsext_host_name(ssl, name); }

// The object that a connection belongs to. Index 0 is the application's.
static inline int nightjar_ssl_set_owner(SSL *ssl, void *owner) { return SSL_set_ex_data(ssl, 0, owner); }
static inline void *nightjar_ssl_owner(const SSL *ssl) { return SSL_get_ex_data(ssl, 0); }
static inline int nightjar_store_ctx_set_owner(X509_STORE_CTX *ctx, void *owner) { return X509_STORE_CTX_set_ex_data(ctx, 0, owner); }
static inline void *nightjar_store_ctx_owner(X509_STORE_CTX *ctx) { return X509_STORE_CTX_get_ex_data(ctx, 0); }
static inline SSL *nightjar_store_ctx_ssl(X509_STORE_CTX *ctx) {
    return (SSL *)X509_STORE_CTX_get_ex_data(ctx, SSL_get_ex_data_X509_STORE_CTX_idx());
}

static inline int nightjar_chain_count(const STACK_OF(X509) *chain) { return chain == NULL ? 0 : sk_X509_num(chain); }
static inline X509 *nightjar_chain_at(const STACK_OF(X509) *chain, int index) { return sk_X509_value(chain, index); }

static inline STACK_OF(X509) *nightjar_chain_new(void) { return sk_X509_new_null(); }
// Counts nobody: the certificates have to outlive the chain.
static inline int nightjar_chain_push(STACK_OF(X509) *chain, X509 *certificate) { return sk_X509_push(chain, certificate); }
static inline void nightjar_chain_free(STACK_OF(X509) *chain) { sk_X509_free(chain); }

static inline BIO *nightjar_bio_retry(BIO *bio, int reading) {
    if (reading) BIO_set_retry_read(bio);
    else BIO_clear_retry_flags(bio);
    return bio;
}

#endif
