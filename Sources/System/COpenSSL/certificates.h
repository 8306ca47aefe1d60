// Certificates, keys and their files: what OpenSSL offers as macros, which Swift cannot see.
#ifndef NIGHTJAR_CERTIFICATES_H
#define NIGHTJAR_CERTIFICATES_H

#include <string.h>
#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/pkcs12.h>
#include <openssl/pkcs7.h>
#include <openssl/provider.h>
#include <openssl/store.h>
#include <openssl/ui.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

// Names as RFC 2253 escapes them, in the order of the certificate, UTF-8 as it is: "O=Plant, CN=gateway".
static inline int nightjar_print_name(BIO *out, const X509_NAME *name) {
    unsigned long flags = (ASN1_STRFLGS_RFC2253 & ~ASN1_STRFLGS_ESC_MSB) | XN_FLAG_SEP_CPLUS_SPC | XN_FLAG_FN_SN;
    return X509_NAME_print_ex(out, name, 0, flags) >= 0;
}

// What a memory BIO holds; valid until the BIO changes.
static inline size_t nightjar_bio_contents(BIO *bio, const unsigned char **data) {
    char *found = NULL;
    long count = BIO_get_mem_data(bio, &found);
    *data = (const unsigned char *)found;
    return count > 0 && found ? (size_t)count : 0;
}

// The subject alternative names, or NULL. To be freed with nightjar_general_names_free.
static inline GENERAL_NAMES *nightjar_alternative_names(const X509 *certificate) {
    return (GENERAL_NAMES *)X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
}

static inline int nightjar_general_names_count(const GENERAL_NAMES *names) { return sk_GENERAL_NAME_num(names); }

static inline void nightjar_general_names_free(GENERAL_NAMES *names) { GENERAL_NAMES_free(names); }

// The kind (GEN_DNS, GEN_EMAIL, GEN_URI, GEN_IPADD) and the bytes of one name; 0 for other kinds.
static inline int nightjar_general_name(const GENERAL_NAMES *names, int index, const unsigned char **data, int *count) {
    int kind = 0;
    const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, index);
    void *value = name ? GENERAL_NAME_get0_value(name, &kind) : NULL;
    if (!value || (kind != GEN_DNS && kind != GEN_EMAIL && kind != GEN_URI && kind != GEN_IPADD)) return 0;
    *data = ASN1_STRING_get0_data((const ASN1_STRING *)value);
    *count = ASN1_STRING_length((const ASN1_STRING *)value);
    return *count >= 0 && (*count == 0 || *data) ? kind : 0;
}

// Library and reason of an error number: in OpenSSL 3.0 inline functions with a cast that Swift does not import everywhere.
static inline int nightjar_error_library(unsigned long number) { return ERR_GET_LIB(number); }
static inline int nightjar_error_reason(unsigned long number) { return ERR_GET_REASON(number); }

// How often a key derivation is repeated, as the parameters of an encryption ask for: 0 where they say nothing of it,
// -1 where they cannot be read. A file could ask for hours of work with it.
static inline int64_t nightjar_integer(const ASN1_INTEGER *number) {
    int64_t value = -1;
    return number && ASN1_INTEGER_get_int64(&value, number) == 1 && value >= 0 ? value : -1;
}

static inline int64_t nightjar_pbe_iterations(const X509_ALGOR *algorithm) {
    const ASN1_OBJECT *object = NULL;
    const void *parameters = NULL;
    int type = 0;
    int64_t iterations = -1;
    if (!algorithm) return -1;
    X509_ALGOR_get0(&object, &type, &parameters, algorithm);
    if (type != V_ASN1_SEQUENCE) return 0;
    if (OBJ_obj2nid(object) != NID_pbes2) {
        PBEPARAM *pbe = (PBEPARAM *)ASN1_item_unpack((const ASN1_STRING *)parameters, ASN1_ITEM_rptr(PBEPARAM));
        if (!pbe) return -1;
        iterations = nightjar_integer(pbe->iter);
        PBEPARAM_free(pbe);
        return iterations;
    }
    PBE2PARAM *pbe2 = (PBE2PARAM *)ASN1_item_unpack((const ASN1_STRING *)parameters, ASN1_ITEM_rptr(PBE2PARAM));
    if (!pbe2) return -1;
    X509_ALGOR_get0(&object, &type, &parameters, pbe2->keyfunc);
    if (OBJ_obj2nid(object) != NID_id_pbkdf2) {
        iterations = 0; // scrypt: OpenSSL bounds its memory, and with it the time.
    } else if (type == V_ASN1_SEQUENCE) {
        PBKDF2PARAM *kdf = (PBKDF2PARAM *)ASN1_item_unpack((const ASN1_STRING *)parameters, ASN1_ITEM_rptr(PBKDF2PARAM));
        if (kdf) {
            iterations = nightjar_integer(kdf->iter);
            PBKDF2PARAM_free(kdf);
        }
    }
    PBE2PARAM_free(pbe2);
    return iterations;
}

// The same of an encrypted PKCS#8 key in DER.
static inline int64_t nightjar_pkcs8_iterations(const unsigned char *der, long count) {
    const unsigned char *at = der;
    X509_SIG *sealed = d2i_X509_SIG(NULL, &at, count);
    const X509_ALGOR *algorithm = NULL;
    if (!sealed) return -1;
    X509_SIG_get0(sealed, &algorithm, NULL);
    int64_t iterations = nightjar_pbe_iterations(algorithm);
    X509_SIG_free(sealed);
    return iterations;
}

// EVP_PKEY_Q_keygen takes variable arguments.
static inline EVP_PKEY *nightjar_make_ec_key(const char *curve) { return EVP_PKEY_Q_keygen(NULL, NULL, "EC", (char *)curve); }
static inline EVP_PKEY *nightjar_make_rsa_key(size_t bits) { return EVP_PKEY_Q_keygen(NULL, NULL, "RSA", bits); }
static inline EVP_PKEY *nightjar_make_key(const char *algorithm) { return EVP_PKEY_Q_keygen(NULL, NULL, algorithm); }

// Adds an extension in OpenSSL's words to a certificate that signs itself.
static inline int nightjar_add_extension(X509 *certificate, int kind, const char *value) {
    X509V3_CTX context;
    X509V3_set_ctx_nodb(&context);
    X509V3_set_ctx(&context, certificate, certificate, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, kind, value);
    if (!extension) return 0;
    int done = X509_add_ext(certificate, extension, -1);
    X509_EXTENSION_free(extension);
    return done;
}

// Chains of certificates as OpenSSL's stacks; the stack does not own them.
static inline STACK_OF(X509) *nightjar_certificates_new(void) { return sk_X509_new_null(); }
static inline int nightjar_certificates_push(STACK_OF(X509) *stack, X509 *certificate) { return sk_X509_push(stack, certificate) > 0; }
static inline int nightjar_certificates_count(const STACK_OF(X509) *stack) { return stack ? sk_X509_num(stack) : 0; }
static inline X509 *nightjar_certificates_at(const STACK_OF(X509) *stack, int index) { return sk_X509_value(stack, index); }
static inline void nightjar_certificates_free(STACK_OF(X509) *stack) { sk_X509_free(stack); }
static inline void nightjar_certificates_free_all(STACK_OF(X509) *stack) { sk_X509_pop_free(stack, X509_free); }

// Repetitions that all key derivations of a PKCS#12 file ask for together, as far as they can be seen before it is opened; -1
// where they cannot be read.
static inline int64_t nightjar_bags_iterations(const STACK_OF(PKCS12_SAFEBAG) *bags, int depth) {
    int64_t total = 0;
    if (depth > 8) return -1;
    for (int i = 0; i < sk_PKCS12_SAFEBAG_num(bags); i++) {
        const PKCS12_SAFEBAG *bag = sk_PKCS12_SAFEBAG_value(bags, i);
        int64_t more = 0;
        if (PKCS12_SAFEBAG_get_nid(bag) == NID_pkcs8ShroudedKeyBag) {
            const X509_SIG *sealed = PKCS12_SAFEBAG_get0_pkcs8(bag);
            const X509_ALGOR *algorithm = NULL;
            if (sealed) X509_SIG_get0(sealed, &algorithm, NULL);
            more = nightjar_pbe_iterations(algorithm);
        } else if (PKCS12_SAFEBAG_get_nid(bag) == NID_safeContentsBag) {
            const STACK_OF(PKCS12_SAFEBAG) *inner = PKCS12_SAFEBAG_get0_safes(bag);
            if (inner) more = nightjar_bags_iterations(inner, depth + 1);
        }
        if (more < 0 || more > INT64_MAX - total) return -1;
        total += more;
    }
    return total;
}

static inline int64_t nightjar_pkcs12_iterations(const PKCS12 *file) {
    const ASN1_INTEGER *repetitions = NULL;
    int64_t total = 0;
    if (PKCS12_mac_present(file)) {
        PKCS12_get0_mac(NULL, NULL, NULL, &repetitions, file);
        total = repetitions ? nightjar_integer(repetitions) : 1;
        if (total < 0) return -1;
    }
    STACK_OF(PKCS7) *safes = PKCS12_unpack_authsafes(file);
    if (!safes) return -1;
    for (int i = 0; i < sk_PKCS7_num(safes) && total >= 0; i++) {
        PKCS7 *safe = sk_PKCS7_value(safes, i);
        int64_t more = 0;
        if (PKCS7_type_is_encrypted(safe)) {
            more = safe->d.encrypted && safe->d.encrypted->enc_data ? nightjar_pbe_iterations(safe->d.encrypted->enc_data->algorithm) : -1;
        } else if (PKCS7_type_is_data(safe)) {
            STACK_OF(PKCS12_SAFEBAG) *bags = PKCS12_unpack_p7data(safe);
            more = bags ? nightjar_bags_iterations(bags, 0) : -1;
            if (bags) sk_PKCS12_SAFEBAG_pop_free(bags, PKCS12_SAFEBAG_free);
        }
        total = more < 0 || more > INT64_MAX - total ? -1 : total + more;
    }
    sk_PKCS7_pop_free(safes, PKCS7_free);
    return total;
}

#endif
