/// Everything that is wrong with the files named in a configuration, each with its path and reason. Creates and changes nothing.
package enum TLSFileCheck {
    /// - Parameter now: seconds since 1970.
    package static func identity(_ setting: IdentitySetting, store: KeyStore, now: Int64) -> [TLSFileError] {
        switch setting {
        case .anonymous: return anonymous(store)
        case .label(let label): return label == .anonymous ? anonymous(store) : judge(place: store.path(of: label), now) { () throws(TLSFileError) in
            try store.load(label)
        }
        case .provider(let uri):
            return judge(place: ProviderURI.redacted(uri), now) { () throws(TLSFileError) in try setting.load(store) }
        case .files(let certificate, let key, let passphrase):
            // Each file separately first, because both may be wrong.
            var problems: [TLSFileError] = []
            var chain: [Certificate]?
            var secret: PrivateKey?
            do throws(TLSFileError) { chain = try IdentitySetting.chain(certificate) } catch { problems.append(error) }
            do throws(TLSFileError) { secret = try IdentitySetting.key(key, passphrase, store) } catch { problems.append(error) }
            let place = ProviderURI.redacted(certificate)
            guard let chain else { return problems }
            guard let secret else { return problems + validity(chain, place, now) }
            return judge(place: place, now) { () throws(TLSFileError) in
                do throws(TLSFileError) { return try Identity(chain: chain, key: secret, path: place) } catch where error.kind == .keyMismatch {
                    throw TLSFileError(.keyMismatch, path: ProviderURI.redacted(key), reason: "\(error.reason) in \(place)", advice: error.advice)
                }
            }
        }
    }

    /// Authorities for verifying peers: at least one must be valid.
    package static func roots(_ path: String, now: Int64) -> [TLSFileError] {
        do throws(TLSFileError) {
            let found = try CertificateFile.read(path)
            if found.contains(where: { $0.notBefore <= now && $0.notAfter >= now }) { return [] }
            return Array(found.flatMap { validity([$0], path, now) }.prefix(1))
        } catch { return [error] }
    }

    package static func revocationLists(_ path: String) -> [TLSFileError] {
        do throws(TLSFileError) {
            _ = try RevocationList.read(path)
            return []
        } catch { return [error] }
    }

    /// The issuers of a file's revocation lists that are not among the authorities in other files. Empty if a file cannot be read.
    package static func unknownIssuers(of path: String, roots: [String]) -> [String] {
        do throws(TLSFileError) {
            var known: Set<String> = []
            for root in roots { known.formUnion(try CertificateFile.read(root).map(\.subject)) }
            return Set(try RevocationList.read(path).map(\.issuer)).subtracting(known).sorted()
        } catch { return [] }
    }

    /// Whether they can be read; their dates do not matter: see ``CertificateEnd/Use/pinned``.
    package static func pins(_ path: String) -> [TLSFileError] {
        do throws(TLSFileError) {
            _ = try CertificateFile.read(path)
            return []
        } catch { return [error] }
    }

    /// An existing one must be usable, unless it will be created again.
    private static func anonymous(_ store: KeyStore) -> [TLSFileError] {
        do throws(TLSFileError) {
            _ = try store.load(.anonymous)
            return []
        } catch {
            switch error.kind {
            case .missing, .malformed, .noKey, .noCertificate, .keyMismatch, .encrypted, .tooLarge: return []
            default: return [error]
            }
        }
    }

    private static func judge(place: String, _ now: Int64, _ load: () throws(TLSFileError) -> Identity) -> [TLSFileError] {
        do throws(TLSFileError) {
            let identity = try load()
            var problems = validity(identity.chain, place, now)
            if identity.key.facts.isWeak {
                problems.append(
                    TLSFileError(
                        .weak, path: place, reason: "its key (\(identity.key.facts)) is too weak: peers refuse it",
                        advice: "make one with at least RSA 2048 or EC P-256"))
            }
            // Peers do not check a self-signature, which proves nothing.
            for certificate in identity.chain where (1..<112).contains(certificate.signatureSecurityBits) && !certificate.isSelfSigned {
                let name = String(certificate.subject.prefix(TLSLimits.quotedCharacters))
                problems.append(
                    TLSFileError(
                        .weak, path: place, reason: "the signature on the certificate \(name) is too weak (SHA-1 or MD5): peers refuse it",
                        advice: "have it reissued with SHA-256"))
            }
            return problems
        } catch { return [error] }
    }

    private static func validity(_ chain: [Certificate], _ path: String, _ now: Int64) -> [TLSFileError] {
        chain.compactMap { certificate in
            let name = String(certificate.subject.prefix(TLSLimits.quotedCharacters))
            if certificate.notAfter < now {
                return TLSFileError(
                    .expired, path: path, reason: "the certificate \(name) expired at \(TimeText.utc(certificate.notAfter))", advice: "replace it")
            }
            if certificate.notBefore > now {
                return TLSFileError(
                    .notYetValid, path: path, reason: "the certificate \(name) is not valid before \(TimeText.utc(certificate.notBefore))",
                    advice: "is this machine's clock right? It says \(TimeText.utc(now))")
            }
            return nil
        }
    }
}
