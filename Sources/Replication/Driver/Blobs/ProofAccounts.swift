import Documents
import Synchronization

/// What peers may still ask for of proofs that we hold a blob. One costs the peer twenty bytes and us the reading of the blob, so a
/// peer that asks for the same blob again and again, each time with another nonce, gets so many bytes' worth and no more, over however many
/// connections.
///
/// A peer goes by its user, or by the address that it has no name at.
public final class ProofAccounts: Sendable {
    private struct Account {
        var credit: Double
        var refilledAt: UInt64
    }

    private struct First: Hashable {
        var account: String
        var digest: BlobDigest
    }

    private struct State {
        /// Of those that used some of their credit; one that is not here has all of it.
        var accounts: [String: Account] = [:]
        /// Blobs that were proved to somebody once, the newer and the older half.
        var newer: Set<First> = []
        var older: Set<First> = []
    }

    private let burst: Double
    private let perSecond: Double
    private let mostAccounts: Int
    private let mostFirsts: Int
    private let state = Mutex(State())

    public init(_ limits: ReplicationLimits = .init()) {
        burst = Double(limits.proofBytes)
        perSecond = Double(limits.proofBytesPerSecond)
        mostAccounts = max(1, limits.proofAccounts)
        mostFirsts = max(1, limits.firstProofs / 2)
    }

    /// How many accounts are remembered.
    var count: Int { state.withLock { $0.accounts.count } }

    /// Whether a proof over so many bytes is made now. The first of each blob is: the peer could have the blob itself for that. One that
    /// is larger than the whole credit is made when nothing of that is used, and paid for afterwards.
    func allows(_ digest: BlobDigest, bytes: UInt64, to name: String, at now: UInt64) -> Bool {
        state.withLock { state in
            let first = First(account: name, digest: digest)
            if !state.newer.contains(first) {
                let isFirst = !state.older.contains(first)
                if state.newer.count >= mostFirsts { (state.older, state.newer) = (state.newer, []) }
                state.newer.insert(first)
                if isFirst { return true }
            }
            let left = state.accounts[name].map { credit($0, now) } ?? burst
            guard left >= min(Double(bytes), burst) else { return false }
            if state.accounts[name] == nil, state.accounts.count >= mostAccounts { makeRoom(&state, now) }
            state.accounts[name] = Account(credit: left - Double(bytes), refilledAt: now)
            return true
        }
    }

    private func credit(_ account: Account, _ now: UInt64) -> Double {
        min(burst, account.credit + perSecond * Double(now - min(now, account.refilledAt)) / 1e9)
    }

    /// Forgets those that have all their credit again, and a tenth at least: those that lack the least.
    private func makeRoom(_ state: inout State, _ now: UInt64) {
        state.accounts = state.accounts.filter { credit($0.value, now) < burst }
        let most = mostAccounts - max(1, mostAccounts / 10)
        guard state.accounts.count > most else { return }
        let sorted = state.accounts.sorted { credit($0.value, now) > credit($1.value, now) }
        for (name, _) in sorted.prefix(state.accounts.count - most) { state.accounts[name] = nil }
    }
}
