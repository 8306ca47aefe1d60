import Glibc
import Synchronization

/// The identity in force, which can be replaced without a restart.
package final class IdentitySource: Sendable {
    package let setting: IdentitySetting
    private let store: KeyStore
    private let files: ReloadableFiles<Identity>
    private let prepared = Mutex<Certificate?>(nil)
    private let memory: AnonymousMemory

    /// Reads the identity, or creates the anonymous one. Accepts expired ones: ``TLSFileCheck`` judges them.
    ///
    /// - Parameter memory: of the anonymous identity, shared by all who use it.
    package init(_ setting: IdentitySetting, store: KeyStore, memory: AnonymousMemory = AnonymousMemory()) throws(TLSFileError) {
        self.setting = setting
        self.store = store
        self.memory = memory
        files = try .reading(setting.paths(store)) { () throws(TLSFileError) in try setting.load(store, memory) }
    }

    package var current: Identity { files.current }

    /// The label, the path or the URI, for status.
    package var label: String { setting.description }

    /// What is wrong with the files at the moment, while ``current`` is an earlier value; nil if all is well.
    package var failure: TLSFileError? { files.failure }

    /// Reads the identity again if its files have changed, or if it is the anonymous one and about to expire
    /// or without its file.
    ///
    /// - Parameter always: even if the files look unchanged; for identities behind providers, whose changes cannot be noticed.
    /// - Returns: whether ``current`` has changed.
    /// - Throws: what is wrong, once for every change of the files; the identity is kept.
    package func reload(always: Bool = false) throws(TLSFileError) -> Bool {
        let before = files.current
        let (isGone, known) = (self.isGone, files.failure)
        do throws(TLSFileError) {
            guard try files.reload(always: always || isDue || isGone) else { return false }
        } catch {
            // Writing a lost file again is tried each time, and a failure is told once.
            if isGone, !always, error == known { return false }
            throw error
        }
        let after = files.current
        return after.chain != before.chain
    }

    /// The certificate with a new key that will replace it: its pin is announced in advance. Nil if there is none.
    package var next: Certificate? { prepared.withLock { $0 } }

    /// Checks whether there is one.
    ///
    /// - Returns: the certificate, if it has changed since the last check.
    package func lookForNext() -> Certificate? {
        let label: IdentityLabel? =
            switch setting {
            case .anonymous: .anonymous
            case .label(let label): label
            case .files, .provider: nil
            }
        let found = label.flatMap { try? KeyStore.label(.next, of: $0) }.flatMap { try? store.load($0) }?.leaf
        return prepared.withLock { known in
            defer { known = found }
            return found == known ? nil : found
        }
    }

    /// What happened to the anonymous identity since the last call, for the log: that it was renewed.
    package func takeIdentityEvents() -> [KeyStore.AnonymousEvent] { memory.takeIdentityEvents() }

    /// If this is the anonymous identity: its damaged file, which was set aside because no key could be read from it; nil once that file has been
    /// removed.
    package var damagedFile: String? { renewsItself ? store.damagedFile : nil }

    /// Whether the anonymous identity must be renewed before it expires.
    private var isDue: Bool { renewsItself && files.current.leaf.notAfter - store.now < KeyStore.anonymousRenewal }

    /// Whether it is the anonymous identity and its file is gone.
    private var isGone: Bool { renewsItself && access(store.path(of: .anonymous), F_OK) != 0 }

    /// If this is the anonymous identity: that its file was gone (`putBack` or `lost`); nil if it was not.
    package var loss: KeyStore.AnonymousEvent? { renewsItself ? memory.loss : nil }

    /// Whether it is the agent's own, renewed before it expires.
    package var renewsItself: Bool {
        switch setting {
        case .anonymous: true
        case .label(let label): label == .anonymous
        case .files, .provider: false
        }
    }

    /// What status should say about its dates; nil while all is well.
    package var warning: String? {
        let now = store.now
        if renewsItself, current.isValid(at: now) { return nil }
        return current.expiryWarning(named: label, now: now, remedy: remedy)
    }

    /// Its end, if that should be told. One that the agent renews by itself is told only if the renewal did not happen.
    package func end(now: Int64) -> CertificateEnd? {
        if renewsItself, current.leaf.notAfter >= now { return nil }
        return CertificateEnd(of: current.leaf, as: .identity(label), now: now, remedy: remedy)
    }

    private var remedy: String {
        if case .label(let label) = setting { return current.renewal(of: label) }
        return "replace it; a running agent picks up the new one by itself"
    }
}

extension Identity {
    /// Whether the certificate is within its validity period.
    package func isValid(at now: Int64) -> Bool { leaf.notBefore <= now && now <= leaf.notAfter }

    /// A sentence for status if the identity has expired, is not valid yet or expires within 30 days; otherwise nil.
    package func expiryWarning(named name: String, now: Int64, remedy: String) -> String? {
        let end = CertificateEnd(of: leaf, as: .identity(name), now: now, remedy: remedy)
        if leaf.notBefore > now, end?.expiredAt == nil {
            return "the identity \(name) is not valid before \(TimeText.utc(leaf.notBefore)): is this machine's clock right?"
        }
        return end.map { "\($0.text): \($0.remedy)" }
    }

    /// The same for an identity in the key store.
    package func expiryWarning(of label: IdentityLabel, now: Int64) -> String? {
        expiryWarning(named: label.text, now: now, remedy: renewal(of: label))
    }

    /// How to renew an identity in the key store.
    package func renewal(of label: IdentityLabel) -> String {
        leaf.isSelfSigned
            ? "nightjar identity create \(label.text) --replace; this keeps its names and its key, so pins of the key stay valid"
            : "have it renewed, then nightjar identity import \(label.text) FILE --replace; a running agent picks up the new one by itself"
    }
}
