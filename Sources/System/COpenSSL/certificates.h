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

#endif
