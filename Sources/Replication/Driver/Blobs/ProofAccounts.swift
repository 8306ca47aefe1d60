import Documents
import Synchronization

/// How many more proofs of possession peers may request from us. A proof costs the peer twenty bytes and us reading the whole blob. A peer that
/// requests proofs of the same blob over and over, each with another nonce, gets this many bytes' worth and no more, over however many connections.
///
/// A peer is identified by its user, or by its address if it is anonymous.
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
        /// Accounts that have used some of their credit; all others have the full credit.
        var accounts: [String: Account] = [:]
        /// Blobs that were proved once to anybody, the newer and the older half.
        var newer: Set<First> = []
        var older: Set<First> = []
    }

    private let burst: Double
    private let perSecond: Double
    private let maximumAccounts: Int
    private let maximumFirstProofs: Int
    private let state = Mutex(State())

    public init(_ limits: ReplicationLimits = .init()) {
        burst = Double(limits.proofBytes)
        perSecond = Double(limits.proofBytesPerSecond)
        maximumAccounts = max(1, limits.proofAccounts)
        maximumFirstProofs = max(1, limits.firstProofs / 2)
    }

    /// Number of accounts remembered.
    var count: Int { state.withLock { $0.accounts.count } }

    /// Charges a proof over this many bytes to an account, if it may be computed. The first one of each blob always may, and is free: the peer could get the
    /// blob itself at that cost. A proof larger than the whole credit is computed if no credit is used, and is paid off afterwards.
    ///
    /// - Returns: whether it may be computed.
    func charge(_ digest: BlobDigest, bytes: UInt64, to name: String, at now: UInt64) -> Bool {
        state.withLock { state in
            let first = First(account: name, digest: digest)
            if !state.newer.contains(first) {
                let isFirst = !state.older.contains(first)
                if state.newer.count >= maximumFirstProofs { (state.older, state.newer) = (state.newer, []) }
                state.newer.insert(first)
                if isFirst { return true }
            }
            let left = state.accounts[name].map { credit($0, now) } ?? burst
            guard left >= min(Double(bytes), burst) else { return false }
            if state.accounts[name] == nil, state.accounts.count >= maximumAccounts { makeRoom(&state, now) }
            state.accounts[name] = Account(credit: left - Double(bytes), refilledAt: now)
            return true
        }
    }

    private func credit(_ account: Account, _ now: UInt64) -> Double {
        min(burst, account.credit + perSecond * Double(now - min(now, account.refilledAt)) / 1e9)
    }

    /// Forgets the accounts that have their full credit again, and at least a tenth of all: those that lack the least.
    private func makeRoom(_ state: inout State, _ now: UInt64) {
        state.accounts = state.accounts.filter { credit($0.value, now) < burst }
        let most = maximumAccounts - max(1, maximumAccounts / 10)
        guard state.accounts.count > most else { return }
        let sorted = state.accounts.sorted { credit($0.value, now) > credit($1.value, now) }
        for (name, _) in sorted.prefix(state.accounts.count - most) { state.accounts[name] = nil }
    }
}
