import TestRandomness
import Testing

@testable import Replication

/// What checkpoints say, and how the two copies are compared.
struct CheckpointBodyTests {
    private func body(_ local: UInt64, _ remote: String?) -> CheckpointBody {
        CheckpointBody(local: local, remote: remote.map { RemoteSequence(json: $0) })
    }

    @Test(arguments: [
        // own local, own remote, peer local, peer remote, agreed local, agreed remote, trusted, reported as having gone back
        (10, "7", 10, "7", 10, "7", true, false), (10, "7", 4, "7", 4, "7", false, true), (4, "7", 10, "7", 4, "7", false, false),
        (10, "7", 10, "3", 10, "3", true, true), (10, "3", 10, "7", 10, "3", true, false), (10, "9", 10, "10", 10, "9", true, false),
        (10, "\"3::9\"", 10, "\"3::9\"", 10, "\"3::9\"", true, false), (10, "\"3::9\"", 10, "\"28:7\"", 10, nil, true, false),
        (10, "\"3::9\"", 10, "5", 10, nil, true, false), (10, nil, 10, "5", 10, nil, true, false), (10, nil, 10, nil, 10, nil, true, false),
        (0, nil, 0, nil, 0, nil, true, false),
    ] as [(UInt64, String?, UInt64, String?, UInt64, String?, Bool, Bool)])
    func theSmallerProgressCounts(
        _ ownLocal: UInt64, _ ownRemote: String?, _ peerLocal: UInt64, _ peerRemote: String?, _ local: UInt64, _ remote: String?, _ trusts: Bool,
        _ wentBack: Bool
    ) {
        let agreed = CheckpointBody.agree(own: body(ownLocal, ownRemote), peer: body(peerLocal, peerRemote))
        #expect(agreed.local == local && agreed.remote?.json == remote && agreed.trustsKnownRevisions == trusts)
        #expect(agreed.loss == (wentBack ? .wentBack : nil))
    }

    /// The histories of both sides, newest first; each entry has the session, what was pushed and what was pulled.
    @Test(arguments: [
        ([("b", 9, "5"), ("a", 4, "3")], [("b", 9, "5"), ("a", 4, "3")], 9, "5", true, nil),
        // The peer's copy was saved, and ours was not.
        ([("b", 7, "5")], [("b", 9, "6")], 7, "5", true, nil),
        ([("b", 7, "\"5-x\"")], [("b", 7, "\"6-y\"")], 7, "\"5-x\"", true, nil),
        // The peer went back to a backup: one from this session, one from an earlier session, and one from before all of them.
        ([("b", 9, "5")], [("b", 7, "4")], 7, "4", false, .wentBack),
        ([("b", 9, "\"12-x\"")], [("b", 9, "\"9-y\"")], 9, "\"9-y\"", false, .wentBack),
        ([("b", 9, "5"), ("a", 4, "3")], [("a", 4, "3")], 4, "3", false, .wentBack),
        ([("b", 9, "5")], [], 0, nil, false, .missing),
        ([], [("b", 9, "5")], 0, nil, false, nil),
    ] as [([(String, Int, String)], [(String, Int, String)], Int, String?, Bool, CheckpointBody.PeerLoss?)])
    func whatTwoHistoriesHaveInCommon(
        _ own: [(String, Int, String)], _ peer: [(String, Int, String)], _ local: Int, _ remote: String?, _ trusts: Bool, _ loss: CheckpointBody.PeerLoss?
    ) {
        func log(_ entries: [(String, Int, String)]) -> ReplicationLog {
            var log = ReplicationLog()
            log.history = entries.map { .init(session: $0.0, body: CheckpointBody(local: UInt64($0.1), remote: RemoteSequence(json: $0.2))) }
            return log
        }
        let expected = CheckpointBody.Agreement(
            local: UInt64(local), remote: remote.map { RemoteSequence(json: $0) }, trustsKnownRevisions: trusts, loss: loss)
        #expect(ReplicationLog.common(log(own), log(peer)) == expected)
    }

    /// If the peer lost its copy or has a different one, the copy counts again.
    @Test func aCheckpointThatThePeerRefusedCountsWhileThePeersCopyIsTheSame() {
        let text = CheckpointBody.hereOnly(CheckpointBody(local: 7).bytes(time: 0), besides: "0-3")
        #expect(CheckpointBody.isHereOnly(text, besides: "0-3") && CheckpointBody(parsing: text).local == 7)
        #expect(!CheckpointBody.isHereOnly(text, besides: "") && !CheckpointBody.isHereOnly(text, besides: "0-4"))
        #expect(!CheckpointBody.isHereOnly(CheckpointBody(local: 7).bytes(time: 0), besides: ""))
    }

    @Test func aCopyNamesTheLoginThatMadeIt() {
        let text = CheckpointBody.made(as: "user anna", CheckpointBody(local: 7, remote: RemoteSequence(json: "18446744073709551616")).bytes(time: 0))
        #expect(CheckpointBody(parsing: text) == CheckpointBody(local: 7, remote: RemoteSequence(json: "18446744073709551616")))
        #expect(CheckpointBody.isAboutAnother(text, than: "user ben"))
        #expect(!CheckpointBody.isAboutAnother(text, than: "user anna") && !CheckpointBody.isAboutAnother(text, than: nil))
        #expect(!CheckpointBody.isAboutAnother(CheckpointBody(local: 7).bytes(time: 0), than: "user ben"), "a checkpoint without a login may be anybody's")
    }

    @Test func withoutACopyOfOurOwnThePeersIsIgnored() {
        #expect(CheckpointBody.agree(own: nil, peer: body(10, "7")) == .init(local: 0, remote: nil, trustsKnownRevisions: false))
    }

    @Test func aPeerWithoutACopyMayHaveLostData() {
        #expect(CheckpointBody.agree(own: body(10, "7"), peer: nil) == .init(local: 0, remote: nil, trustsKnownRevisions: false, loss: .missing))
        // Our copy claims nothing, so nothing was lost.
        #expect(CheckpointBody.agree(own: body(0, nil), peer: nil).loss == nil)
    }

    @Test(arguments: ["7", "18446744073709551616", "\"3::9\"", "\"1:2:3\"", "\"a\\\"b\""])
    func sequencesAreSentBackUnchanged(_ json: String) {
        let again = CheckpointBody(parsing: body(5, json).bytes(time: 1))
        #expect(again.remote?.json == json && again.local == 5)
    }

    @Test(arguments: ["", "null", "[]", "{", "{\"local\":-1}", "{\"local\":\"x\",\"remote\":{}}", "{\"local\":1e99}"])
    func anUnusableCheckpointCountsAsNoProgress(_ text: String) {
        #expect(CheckpointBody(parsing: Array(text.utf8)) == CheckpointBody())
    }
}

/// Tracks the sequence up to which everything is done.
struct SequenceTrackerTests {
    @Test func openSequencesAreNeverPassed() {
        var tracker = LocalSequenceTracker(from: 10)
        #expect(tracker.completedThrough == 10)
        for sequence: UInt64 in [12, 13, 15] { tracker.begin(sequence) }
        tracker.scanned(through: 20)
        #expect(tracker.completedThrough == 11)
        tracker.complete(13)
        #expect(tracker.completedThrough == 11)
        tracker.complete(12)
        #expect(tracker.completedThrough == 14)
        tracker.complete(15)
        #expect(tracker.completedThrough == 20 && tracker.pendingCount == 0)
    }

    @Test func anEarlierSequenceMayBeReopened() {
        var tracker = LocalSequenceTracker(from: 0)
        for sequence: UInt64 in 1...5 { tracker.begin(sequence) }
        tracker.scanned(through: 5)
        for sequence: UInt64 in 1...5 { tracker.complete(sequence) }
        #expect(tracker.completedThrough == 5)
        tracker.begin(2)
        #expect(tracker.completedThrough == 1 && tracker.isPending(2))
        tracker.complete(2)
        #expect(tracker.completedThrough == 5)
    }

    @Test func aSequenceBeyondWhatWasReadClaimsNothing() {
        var tracker = LocalSequenceTracker(from: 3)
        tracker.begin(9)
        #expect(tracker.completedThrough == 3)
        tracker.complete(9)
        #expect(tracker.completedThrough == 3)
        tracker.scanned(through: 8)
        #expect(tracker.completedThrough == 8)
    }

    @Test func aSequenceThatStaysOpenHoldsBackAllThatFollow() {
        var tracker = LocalSequenceTracker(from: 0)
        tracker.begin(1)
        for sequence: UInt64 in 2...20_000 {
            tracker.begin(sequence)
            tracker.scanned(through: sequence)
            if sequence % 5_000 != 0 { tracker.complete(sequence) }
            if sequence % 1_000 == 0 { #expect(tracker.completedThrough == 0) }
        }
        #expect(tracker.readAgain == 19_995)
        tracker.complete(1)
        #expect(tracker.completedThrough == 4_999 && tracker.readAgain == 14_997)
    }

    /// Compares the tracker with a plain version of the definition. What is read again is exact as long as nothing is begun once more.
    @Test(arguments: [UInt64(1), 2, 3, 4])
    func localAgainstTheDefinition(_ seed: UInt64) {
        let repeats = seed % 2 == 0
        var random = SeededGenerator(seed: seed)
        var tracker = LocalSequenceTracker(from: 0)
        var open: Set<UInt64> = []
        var newest: UInt64 = 0
        /// What was completed after one that is open.
        var behind: [UInt64] = []
        for step in 0..<20_000 {
            if Bool.random(using: &random) || open.isEmpty {
                if repeats, Int.random(in: 0..<50, using: &random) == 0, newest > 0 {
                    let again = UInt64.random(in: 1...newest, using: &random)
                    tracker.begin(again)
                    open.insert(again)
                } else {
                    newest += UInt64.random(in: 1...3, using: &random)
                    tracker.begin(newest)
                    tracker.scanned(through: newest)
                    open.insert(newest)
                }
            } else if let one = open.randomElement(using: &random) {
                tracker.complete(one)
                open.remove(one)
                behind.append(one)
                behind.removeAll { $0 < open.min() ?? .max }
            }
            if step % 97 == 0 {
                #expect(repeats ? (0...behind.count).contains(tracker.readAgain) : tracker.readAgain == behind.count, "seed \(seed), step \(step)")
                #expect(tracker.completedThrough == (open.min().map { $0 - 1 } ?? newest), "seed \(seed), step \(step)")
                #expect(tracker.pendingCount == open.count)
            }
        }
    }

    /// Remote sequences are opaque: only the order of arrival counts.
    @Test(arguments: [UInt64(5), 6, 7])
    func remoteAgainstTheDefinition(_ seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var tracker = RemoteSequenceTracker(from: nil)
        var rows: [(RemoteSequence, Bool)] = []
        for step in 0..<20_000 {
            if Bool.random(using: &random) {
                let sequence = RemoteSequence(json: "\"\(UInt32.random(in: 0 ... .max, using: &random)):\(rows.count)\"")
                tracker.begin(sequence)
                rows.append((sequence, false))
            } else if !rows.isEmpty {
                let index = Int.random(in: max(0, rows.count - 300)..<rows.count, using: &random)
                #expect(tracker.complete(rows[index].0) == !rows[index].1)
                rows[index].1 = true
            }
            if step % 501 == 0 {
                let done = rows.prefix { $0.1 }
                #expect(tracker.completedThrough == done.last?.0, "seed \(seed), step \(step)")
                #expect(tracker.outstanding == rows.count { !$0.1 })
            }
        }
    }

    /// Some rows stay open for ever, in any order: nothing after the first of these is ever claimed.
    @Test(arguments: [UInt64(8), 9, 10])
    func remoteRowsThatAreLeftOpen(_ seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        for _ in 0..<300 {
            var tracker = RemoteSequenceTracker(from: nil)
            let rows = (1...30).map { RemoteSequence(json: "\($0)") }
            for row in rows { tracker.begin(row) }
            var done: Set<RemoteSequence> = []
            for row in rows.shuffled(using: &random) {
                if Int.random(in: 0..<4, using: &random) == 0 {
                    tracker.leave(row)
                    let isCompleted = tracker.complete(row)
                    #expect(!isCompleted)
                } else {
                    let isCompleted = tracker.complete(row)
                    #expect(isCompleted)
                    done.insert(row)
                }
                #expect(tracker.completedThrough == rows.prefix { done.contains($0) }.last)
            }
            #expect(tracker.outstanding == (done.count < rows.count ? 1 : 0))
        }
    }

    @Test func aRowAnnouncedTwiceCountsOnce() {
        var tracker = RemoteSequenceTracker(from: nil)
        let one = RemoteSequence(json: "1")
        tracker.begin(one)
        tracker.begin(one)
        tracker.begin(RemoteSequence(json: "2"))
        tracker.complete(one)
        #expect(tracker.completedThrough == one)
        tracker.complete(RemoteSequence(json: "2"))
        #expect(tracker.completedThrough?.json == "2")
    }
}
