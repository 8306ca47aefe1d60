import Encodings
import Synchronization

/// The identity that is in force, and how it becomes another one without a restart.
package final class IdentitySource: Sendable {
    package let setting: IdentitySetting
    private let store: KeyStore
    private let files: ReloadableFiles<Identity>
    private let prepared = Mutex<Certificate?>(nil)
    private let memory: AnonymousMemory

    /// Reads the identity, or makes the anonymous one. Expired ones are taken: ``TLSFileCheck`` judges them.
    package init(_ setting: IdentitySetting, store: KeyStore) throws(TLSFileError) {
        self.setting = setting
        self.store = store
        let memory = AnonymousMemory()
        self.memory = memory
        files = try .reading(setting.paths(store)) { () throws(TLSFileError) in try setting.load(store, memory) }
    }

    package var current: Identity { files.current }

    /// The label, the path or the URI, for status.
    package var label: String { setting.description }

    /// What is wrong with the files as they are now, while ``current`` is from before; nil if all is well.
    package var failure: TLSFileError? { files.failure }

    /// Reads the identity anew if its files have changed, or if it is the anonymous one and about to expire.
    ///
    /// - Parameter always: also when the files look the same; for identities behind providers, whose changes nobody sees.
    /// - Returns: whether ``current`` is another identity now.
    /// - Throws: what is wrong, once for every change of the files; the identity stays.
    package func reload(always: Bool = false) throws(TLSFileError) -> Bool {
        let before = files.current
        guard try files.reload(always: always || isDue) else { return false }
        let after = files.current
        return after.chain != before.chain
    }

    /// The certificate, with another key, that was made to take its place: its pin is told in advance. Nil where there is none.
    package var next: Certificate? { prepared.withLock { $0 } }

    /// Looks whether there is one.
    ///
    /// - Returns: the certificate, where it is another one than at the last look.
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

    /// What became of the anonymous identity since the last time that this was asked, for the log: that it was made anew.
    package func takeNews() -> [KeyStore.AnonymousEvent] { memory.takeNews() }

    /// A damaged file of the anonymous identity, where this is that one, that was set aside because no key could be read from it; nil once it
    /// has been removed.
    package var damagedFile: String? { renewsItself ? store.damagedFile : nil }

    /// The anonymous identity is renewed before it ends.
    private var isDue: Bool { renewsItself && files.current.leaf.notAfter - store.now < KeyStore.anonymousRenewal }

    /// It is the agent's own, replaced before its end.
    package var renewsItself: Bool {
        switch setting {
        case .anonymous: true
        case .label(let label): label == .anonymous
        case .files, .provider: false
        }
    }

    /// What status should say of its end; nil while all is well.
    package var warning: String? { current.expiryWarning(named: label, now: store.now) }
}

extension Identity {
    /// Days before its end at which an identity is reported.
    package static let warningDays: Int64 = 30

    /// Whether the certificate's dates allow its use at a time.
    package func isValid(at now: Int64) -> Bool { leaf.notBefore <= now && now <= leaf.notAfter }

    /// A sentence for status where the identity has expired, is not valid yet or ends within 30 days; else nil.
    package func expiryWarning(named name: String, now: Int64, remedy: String = "replace it") -> String? {
        let left = leaf.notAfter - now
        if left < 0 { return "the identity \(name) expired at \(TimeText.utc(leaf.notAfter)): \(remedy)" }
        if leaf.notBefore > now { return "the identity \(name) is not valid before \(TimeText.utc(leaf.notBefore)): is this machine's clock right?" }
        guard left < Self.warningDays * 86_400 else { return nil }
        let days = left / 86_400
        let rest = days == 0 ? "today" : "in \(Plural.count(days, "day"))"
        return "the identity \(name) expires \(rest) (\(TimeText.utc(leaf.notAfter))): \(remedy)"
    }
}
