import Synchronization
import TestSupport
import Testing

@testable import CouchDBServer

/// Whether a client may stay while it is answered.
@Suite("Admissions")
struct AdmissionTests {
    private final class Counter: Sendable {
        private let number = Mutex(0)
        var count: Int { number.withLock { $0 } }
        func add() { number.withLock { $0 += 1 } }
    }

    @Test("a caller in doubt waits until it is checked against the last change, and no response continues before that")
    func doubt() async throws {
        let (admission, told) = (Admission(generation: 3), Counter())
        _ = admission.onChange { told.add() }
        #expect(await admission.settled())
        admission.doubt(4)
        admission.doubt(5)
        let settled = Task { await admission.settled() }
        admission.confirm(4)
        #expect(admission.standing == .inDoubt)
        admission.confirm(5)
        #expect(await settled.value)
        // What was found out by an older change says nothing.
        admission.doubt(4)
        #expect(admission.standing == .admitted && told.count == 2)
    }

    @Test("the end reaches every waiting caller, once, and is final")
    func end() async throws {
        let (admission, told) = (Admission(), Counter())
        let number = admission.onChange { told.add() }
        admission.doubt(1)
        let settled = Task { await admission.settled() }
        #expect(admission.end())
        #expect(await !settled.value)
        #expect(!admission.end())
        admission.confirm(1)
        #expect(admission.standing == .ended && told.count == 2)
        admission.cancel(number)
        admission.confirm(2)
        #expect(told.count == 2)
    }

    @Test("an answer on its way is cut, one that waits or is complete is not")
    func cut() {
        for (waits, isComplete, cuts, expected) in [(false, false, true, 1), (true, false, true, 0), (false, true, true, 0), (false, false, false, 0)] {
            let (admission, cut) = (Admission(), Counter())
            #expect(admission.send { cut.add() })
            if waits { admission.wait(true) }
            if isComplete { _ = admission.send(cut: nil) }
            admission.end(cuts: cuts)
            #expect(cut.count == expected)
            // Nothing begins afterwards.
            #expect(!admission.send { cut.add() })
        }
    }

    @Test("a caller that is no longer being answered is forgotten")
    func gone() {
        let gone = Counter()
        var admission: Admission? = Admission { gone.add() }
        #expect(admission?.standing == .admitted && gone.count == 0)
        admission = nil
        #expect(gone.count == 1)
    }
}
