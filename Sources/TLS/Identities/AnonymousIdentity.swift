import COpenSSL
import Environment
import Glibc
import Synchronization

extension KeyStore {
    /// What happened to the anonymous identity.
    package enum AnonymousEvent: Sendable, Equatable {
        case kept
        case made
        /// The reason, for the log. The key is unchanged, unless the reason says otherwise.
        case renewed(String)
        /// No key could be read from its file, which was set aside: the identity has a new key, which nobody has pinned.
        case replaced(reason: String, damagedFile: String)
        /// Its file was gone while this process used it, and was written again with the same key.
        case putBack
        /// There was one before, as far as is known, and its file is gone: the identity has a new key, which nobody has pinned.
        case lost(EarlierIdentity)
    }

    /// What is known about an anonymous identity from before this process.
    package enum EarlierIdentity: Sendable, Equatable {
        case none
        /// There are data from before, but nothing says whether they had an identity.
        case unknown
        /// Its pin.
        case pinned(String)
    }

    /// With fewer seconds of validity left than this, the anonymous identity is renewed, as in Couchbase Lite.
    package static let anonymousRenewal: Int64 = 86_400

    /// Where a file of the anonymous identity is moved if its key cannot be read. The name is not a valid identity label.
    private var damagedPlace: String { "\(path(of: .anonymous)).damaged" }

    /// The damaged file that was set aside and has not been removed since; nil if there is none.
    var damagedFile: String? { access(damagedPlace, F_OK) == 0 ? damagedPlace : nil }

    /// The self-signed identity of an agent without any other: created once, stored, and renewed when less than 24 hours of its validity are left, or
    /// when its file is damaged; with the same key if that can be read.
    ///
    /// - Parameter inForce: the one that this process already uses.
    package func anonymous(inForce: Identity? = nil) throws(TLSFileError) -> (identity: Identity, event: AnonymousEvent) {
        try locked { () throws(TLSFileError) in
            let file = path(of: .anonymous)
            var request = IdentityRequest.anonymous
            var event = AnonymousEvent.made
            var kept: PrivateKey?
            do throws(TLSFileError) {
                let identity = try load(.anonymous)
                try Self.checkWhole(identity, file)
                // One that is not valid yet is kept: this clock is behind, and clients know the fingerprint.
                if identity.leaf.notAfter - now >= Self.anonymousRenewal { return (identity, .kept) }
                kept = identity.keyToKeep(as: request.key)
                event = .renewed("it expires at \(TimeText.utc(identity.leaf.notAfter))\(kept == nil ? ", and it has another key from here on" : "")")
            } catch {
                switch error.kind {
                case .missing:
                    // Peers have pinned its key, and this may be the only copy.
                    guard let inForce else { break }
                    event = .putBack
                    if inForce.leaf.notAfter - now >= Self.anonymousRenewal {
                        try SecretFile.put(file, try IdentityText.make(inForce, path: file), owner: agentUser)
                        return (inForce, event)
                    }
                    kept = inForce.keyToKeep(as: request.key)
                // It is unusable, and nobody visits the machine to repair it.
                case .malformed, .noKey, .noCertificate, .keyMismatch, .encrypted, .tooLarge:
                    if let key = keyOfDamagedFile(file) ?? inForce?.key, let kind = IdentityRequest.KeyKind.allCases.first(where: { key.facts.isOf($0) }) {
                        kept = key
                        request.key = kind
                        event = .renewed("its file is damaged, and its key is kept (\(error))")
                    } else {
                        event = .replaced(reason: "\(error)", damagedFile: damagedPlace)
                    }
                default: throw error
                }
            }
            let identity = try SelfSigning.make(request, label: .anonymous, now: now, key: kept)
            let text = try IdentityText.make(identity, path: file)
            if case .replaced(_, let aside) = event, rename(file, aside) != 0 {
                throw TLSFileError(unwritable: FileError(path: aside, number: errno))
            }
            try SecretFile.put(file, text, owner: agentUser)
            return (identity, event)
        }
    }

    /// Checks for damage that leaves the file readable: handshakes would fail, or peers reject the certificate.
    private static func checkWhole(_ identity: Identity, _ file: String) throws(TLSFileError) {
        guard identity.key.isPair else {
            throw TLSFileError(.malformed, path: file, reason: "the private key is damaged: its secret part is not that of its public part")
        }
        // Its names say that it is self-signed, but the signature does not match.
        guard X509_self_signed(identity.leaf.handle, 0) != 1 || identity.leaf.isSelfSigned else {
            throw TLSFileError(.malformed, path: file, reason: "the certificate is damaged: its own signature does not fit")
        }
    }

    /// The key in a file whose other parts are damaged.
    private func keyOfDamagedFile(_ file: String) -> PrivateKey? {
        guard let bytes = try? TLSFile.read(file, .stored, owner: agentUser) else { return nil }
        return bytes.withBytes { buffer -> PrivateKey? in
            // Not block by block: OpenSSL cannot skip an invalid PEM block.
            let begin = Array("-----BEGIN PRIVATE KEY-----".utf8)
            let last = buffer.count - begin.count
            guard last >= 0, let start = (0...last).first(where: { buffer[$0..<($0 + begin.count)].elementsEqual(begin) }),
                let key = try? PrivateKey.readPEM(UnsafeRawBufferPointer(rebasing: buffer[start...]), passphrase: nil, path: file), key.isPair
            else { return nil }
            // If there is an intact certificate for a different key, this key is not the one that peers have pinned.
            let certificates = (try? Certificate.readPEM(buffer, path: file)) ?? []
            let fits = certificates.isEmpty || certificates.contains { key.matches($0) || !$0.hasPublicKey }
            return fits ? key : nil
        }
    }
}

/// What a process remembers about the anonymous identity in addition to its file. Shared by everything that uses the identity.
package final class AnonymousMemory: Sendable {
    private struct State {
        var identity: Identity?
        var earlier = KeyStore.EarlierIdentity.none
        var loss: KeyStore.AnonymousEvent?
        var news: [KeyStore.AnonymousEvent] = []
    }

    private let state = Mutex(State())

    package init() {}

    /// The one that was last in force; nil before the first.
    package var identity: Identity? { state.withLock { $0.identity } }

    /// That its file was gone (`putBack` or `lost`); nil if it was not, or an identity with another key has been put there since.
    package var loss: KeyStore.AnonymousEvent? { state.withLock { $0.loss } }

    /// Says what is known from before this process; called before the first identity is read.
    package func expect(_ earlier: KeyStore.EarlierIdentity) { state.withLock { $0.earlier = earlier } }

    func note(_ identity: Identity, _ event: KeyStore.AnonymousEvent) {
        state.withLock { state in
            let hasOtherKey = state.identity.map { $0.leaf.pin != identity.leaf.pin } ?? false
            switch event {
            case .kept: if hasOtherKey { state.loss = nil }
            case .made:
                if state.identity == nil, state.earlier != .none {
                    state.loss = .lost(state.earlier)
                    state.news.append(.lost(state.earlier))
                }
            case .renewed, .replaced: state.news.append(event)
            case .putBack, .lost:
                // A new key stays one that nobody has pinned.
                if case .lost = state.loss {} else { state.loss = event }
                state.news.append(event)
            }
            state.identity = identity
        }
    }

    func takeIdentityEvents() -> [KeyStore.AnonymousEvent] {
        state.withLock { state in
            defer { state.news = [] }
            return state.news
        }
    }
}

extension PrivateKey {
    /// Whether its private part matches its public part; a damaged file contains both, and they are read as they are. Also true for a key that
    /// OpenSSL cannot check, as behind a provider.
    var isPair: Bool {
        defer { OpenSSLErrors.clear() }
        guard let context = EVP_PKEY_CTX_new(handle, nil) else { return true }
        defer { EVP_PKEY_CTX_free(context) }
        return EVP_PKEY_pairwise_check(context) != 0
    }
}

extension Certificate {
    /// Whether its public key can be read.
    fileprivate var hasPublicKey: Bool {
        defer { OpenSSLErrors.clear() }
        return X509_get0_pubkey(handle) != nil
    }
}
