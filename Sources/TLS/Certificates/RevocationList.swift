import COpenSSL
import Digests

/// An authority's list of revoked certificates (a CRL, RFC 5280). Two are equal if their bytes are.
package final class RevocationList: Sendable, Hashable {
    /// The `X509_CRL`, owned by this object.
    // Unsafe only in name: OpenSSL reference-counts and locks it, and nothing here changes it.
    nonisolated(unsafe) let handle: OpaquePointer
    private let fingerprint: [UInt8]

    fileprivate init?(der: [UInt8]) {
        let parsed = der.withUnsafeBufferPointer { buffer -> OpaquePointer? in
            var at = buffer.baseAddress
            guard let list = d2i_X509_CRL(nil, &at, buffer.count) else { return nil }
            guard let at, let start = buffer.baseAddress, at - start == buffer.count else {
                X509_CRL_free(list)
                return nil
            }
            return list
        }
        guard let parsed else { return nil }
        handle = parsed
        fingerprint = SHA256.hash(der)
    }

    deinit { X509_CRL_free(handle) }

    /// The name of the authority that signed it.
    package var issuer: String { Certificate.text(of: X509_CRL_get_issuer(handle)) }

    /// Why OpenSSL would not use the list correctly; nil if it would. It mistakes a delta CRL for a complete list, and then ignores the complete one;
    /// it ignores other unsupported forms as if there were no list.
    private var problem: String? {
        if X509_CRL_get_ext_by_NID(handle, NID_delta_crl, -1) >= 0 { return "is a delta: it has only what changed since another list" }
        guard X509_CRL_get_ext_by_NID(handle, NID_issuing_distribution_point, -1) >= 0 else { return nil }
        guard let scope = X509_CRL_get_ext_d2i(handle, NID_issuing_distribution_point, nil, nil)?.assumingMemoryBound(to: ISSUING_DIST_POINT.self)
        else { return "has an issuing distribution point that cannot be read" }
        defer { ISSUING_DIST_POINT_free(scope) }
        if scope.pointee.indirectCRL > 0 { return "is indirect: it may have certificates of other authorities" }
        if scope.pointee.onlysomereasons != nil { return "is only for some reasons of revocation" }
        if scope.pointee.onlyattr > 0 { return "is for attribute certificates" }
        if scope.pointee.onlyuser > 0, scope.pointee.onlyCA > 0 { return "contradicts itself: it is for users' certificates only, and for authorities' only" }
        return nil
    }

    package static func == (left: RevocationList, right: RevocationList) -> Bool { left.fingerprint == right.fingerprint }
    package func hash(into hasher: inout Hasher) { hasher.combine(fingerprint) }

    /// All lists in a PEM file, or the one in a DER file.
    package static func read(_ path: String) throws(TLSFileError) -> [RevocationList] {
        let bytes = try TLSFile.read(path, .certificates)
        return try bytes.withBytes { buffer throws(TLSFileError) in try read(buffer, path) }
    }

    private static func read(_ bytes: UnsafeRawBufferPointer, _ path: String) throws(TLSFileError) -> [RevocationList] {
        func parse(_ der: [UInt8], _ number: Int) throws(TLSFileError) -> RevocationList {
            guard let list = RevocationList(der: der) else {
                throw TLSFileError(
                    .malformed, path: path, reason: "revocation list \(number) of the file: \(OpenSSLErrors.text(otherwise: "other bytes follow it"))")
            }
            if let problem = list.problem {
                throw TLSFileError(
                    .unsupported, path: path, reason: "revocation list \(number) of the file, of \(list.issuer), \(problem)",
                    advice: "name the authority's complete list of its own certificates")
            }
            return list
        }
        if bytes.first == 0x30 { return [try parse(Array(bytes), 1)] }
        var found: [RevocationList] = []
        var reader = PEMReader(bytes, path: path)
        while let block = try reader.next() {
            if block.kind == "X509 CRL" { found.append(try parse(Array(block.bytes), found.count + 1)) }
        }
        guard !found.isEmpty else {
            throw TLSFileError(
                .malformed, path: path, reason: reader.blocks == 0 ? "no PEM text" : "no revocation list, only \(reader.seen)",
                advice: "expected at least one block that begins with -----BEGIN X509 CRL-----")
        }
        return found
    }
}

extension ReloadableFiles where Value == [RevocationList] {
    /// The lists of several files.
    package static func revocationLists(_ paths: [String]) throws(TLSFileError) -> ReloadableFiles<[RevocationList]> {
        try .reading(paths) { () throws(TLSFileError) in
            var all: [RevocationList] = []
            for path in paths { all += try RevocationList.read(path) }
            return all
        }
    }
}

/// How lists are applied: a certificate from an authority that has a list here must not be on it. Certificates from other authorities are not
/// checked, and an overdue list still counts: nobody is locked out because a newer one did not arrive.
enum Revocation {
    /// Adds lists to an `X509_STORE`. False if OpenSSL refuses one.
    static func add(_ lists: [RevocationList], to store: OpaquePointer) -> Bool {
        guard !lists.isEmpty else { return true }
        for list in lists { guard X509_STORE_add_crl(store, list.handle) == 1 else { return false } }
        return X509_STORE_set_flags(store, UInt(X509_V_FLAG_CRL_CHECK | X509_V_FLAG_CRL_CHECK_ALL)) == 1
    }

    /// For an `X509_STORE_CTX` without its own callback.
    static func tolerateMissingLists(_ store: OpaquePointer) {
        X509_STORE_CTX_set_verify_cb(store) { isSound, store in
            guard isSound == 0, Revocation.isTolerated(X509_STORE_CTX_get_error(store)) else { return isSound }
            X509_STORE_CTX_set_error(store, X509_V_OK)
            return 1
        }
    }

    /// - Parameter code: one of `X509_V_ERR_…`.
    static func isTolerated(_ code: Int32) -> Bool {
        [X509_V_ERR_UNABLE_TO_GET_CRL, X509_V_ERR_CRL_HAS_EXPIRED, X509_V_ERR_CRL_NOT_YET_VALID].contains(code)
    }
}
