import Documents
import Interfaces
import NIOCore
import Testing

@testable import Replication

/// Blobs of one connection: written as they come, shared, bounded.
@Suite struct BlobMachineTests {
    private struct Run {
        var machine: BlobMachine

        init(_ change: (inout ReplicationLimits) -> Void = { _ in }) {
            var limits = ReplicationLimits()
            change(&limits)
            machine = BlobMachine(limits)
        }

        @discardableResult
        mutating func on(_ event: BlobEvent) -> [String] {
            var actions: [BlobAction] = []
            machine.handle(event, &actions)
            return actions.map { Self.words($0) }
        }

        /// The file is open, and the peer was asked.
        mutating func open(_ digest: BlobDigest) {
            on(.looked(digest, isHere: false))
            on(.writerOpened(digest))
        }

        private static func name(_ it: BlobDigest) -> String { (0..<20).first { digest($0) == it }.map { "\($0)" } ?? "?" }

        private static func words(_ action: BlobAction) -> String {
            switch action {
            case .look(let it): "look \(name(it))"
            case .begin(let it): "begin \(name(it))"
            case .request(let it, _, let id, let compresses): "request \(name(it)) for \(id)\(compresses ? " compressed" : "")"
            case .write(let it, let bytes): "write \(name(it)) \(bytes.readableBytes)"
            case .consumed(let it, let count): "consumed \(name(it)) \(count)"
            case .install(let it): "install \(name(it))"
            case .abandon(let it): "abandon \(name(it))"
            case .tell(let waiter, let error): "tell \(waiter.fetch.number) \(error.map { "\($0.code)" } ?? "ok")"
            case .serve(let request): "serve \(request.handle.number)"
            }
        }
    }

    private func needed(_ number: Int, _ bytes: UInt8..., length: UInt64? = 5) -> BlobEvent {
        .needed(
            BlobWaiter(slot: 0, fetch: FetchID(number: number)), doc("d\(number)"),
            bytes.map { BlobReference(digest: digest($0), length: length, contentType: "image/png") })
    }

    private func bytes(_ count: Int) -> ByteBuffer { ByteBuffer(repeating: 7, count: count) }

    @Test func aBlobIsRequestedWrittenTakenAndInstalled() {
        var run = Run()
        #expect(run.on(needed(1, 1)) == ["look 1"])
        #expect(run.on(.looked(digest(1), isHere: false)) == ["begin 1"])
        #expect(run.on(.writerOpened(digest(1))) == ["request 1 for d1"])
        #expect(run.on(.bytesArrived(digest(1), bytes(3))) == ["write 1 3"])
        // The peer may send more only for what is on disk.
        #expect(run.on(.written(digest(1), bytes: 3)) == ["consumed 1 3"])
        run.on(.bytesArrived(digest(1), bytes(2)))
        #expect(run.on(.ended(digest(1))) == [])
        #expect(run.on(.written(digest(1), bytes: 2)) == ["consumed 1 2", "install 1"])
        #expect(run.machine.isFetching)
        #expect(run.on(.installed(digest(1))) == ["tell 1 ok"])
        #expect(run.machine.isIdle)
    }

    @Test func itIsNotInstalledBeforeItsLastByteIsWritten() {
        var run = Run()
        run.on(needed(1, 1))
        run.open(digest(1))
        run.on(.bytesArrived(digest(1), bytes(3)))
        run.on(.bytesArrived(digest(1), bytes(4)))
        #expect(run.on(.ended(digest(1))) == [])
        #expect(run.on(.written(digest(1), bytes: 3)) == ["consumed 1 3"])
        #expect(run.on(.written(digest(1), bytes: 4)) == ["consumed 1 4", "install 1"])
    }

    @Test func anEmptyBlobIsInstalledAtItsEnd() {
        var run = Run()
        run.on(needed(1, 1, length: 0))
        run.open(digest(1))
        #expect(run.on(.ended(digest(1))) == ["install 1"])
    }

    @Test func whatIsHereIsNotRequested() {
        var run = Run()
        run.on(needed(1, 1, 2, 1))
        #expect(run.on(.looked(digest(1), isHere: true)) == [])
        #expect(run.on(.looked(digest(2), isHere: true)) == ["tell 1 ok"])
        #expect(run.machine.isIdle)
    }

    @Test func revisionsShareATransfer() {
        var run = Run()
        run.on(needed(1, 1))
        run.open(digest(1))
        #expect(run.on(needed(2, 1)) == [])
        run.on(.ended(digest(1)))
        #expect(run.on(.installed(digest(1))) == ["tell 1 ok", "tell 2 ok"])
    }

    @Test func aRevisionThatNeedsSeveralIsToldOnce() {
        var run = Run()
        run.on(needed(1, 1, 2))
        run.open(digest(1))
        run.open(digest(2))
        #expect(run.on(.failed(digest(1), http(404))) == ["abandon 1", "tell 1 404"])
        run.on(.ended(digest(2)))
        #expect(run.on(.installed(digest(2))) == [])
        #expect(run.machine.isIdle)
    }

    @Test func aBlobThatSaysThatItIsTooLargeIsNotRequested() {
        var run = Run { $0.maximumBlobBytes = 10 }
        #expect(run.on(needed(1, 1, length: 11)) == ["tell 1 413"])
        #expect(run.machine.isIdle)
        #expect(run.on(needed(2, 1, length: 10)) == ["look 1"])
    }

    @Test func aBlobThatTurnsOutTooLargeIsGivenUpForAllThatNeedIt() {
        var run = Run { $0.maximumBlobBytes = 10 }
        run.on(needed(1, 1))
        run.on(needed(2, 1))
        run.open(digest(1))
        #expect(run.on(.bytesArrived(digest(1), bytes(10))) == ["write 1 10"])
        #expect(run.on(.bytesArrived(digest(1), bytes(1))) == ["abandon 1", "tell 1 413", "tell 2 413"])
        // What still comes of it, and what is being written, finds nobody.
        #expect(run.on(.bytesArrived(digest(1), bytes(1))) == [] && run.on(.ended(digest(1))) == [])
        #expect(run.machine.isIdle)
    }

    @Test func onlySoManyAreFetchedAtATimeAndAFailureMakesRoom() {
        var run = Run { $0.blobFetches = 1 }
        run.on(needed(1, 1))
        run.on(needed(2, 2))
        #expect(run.on(.looked(digest(1), isHere: false)) == ["begin 1"])
        #expect(run.on(.looked(digest(2), isHere: false)) == [])
        #expect(run.on(.failed(digest(1), http(503))) == ["abandon 1", "tell 1 503", "begin 2"])
        run.on(.writerOpened(digest(2)))
        run.on(.ended(digest(2)))
        #expect(run.on(.installed(digest(2))) == ["tell 2 ok"])
        #expect(run.machine.isIdle)
    }

    @Test func aFailureBeforeAPlaceWasTakenGivesNoneBack() {
        var run = Run { $0.blobFetches = 1 }
        run.on(needed(1, 1))
        run.on(.failed(digest(1), http(503)))
        run.on(needed(2, 2))
        run.on(needed(3, 3))
        #expect(run.on(.looked(digest(2), isHere: false)) == ["begin 2"])
        #expect(run.on(.looked(digest(3), isHere: false)) == [])
    }

    @Test func onlySoManyAreServedAtATime() {
        var run = Run { $0.blobReads = 1 }
        let request = { (number: UInt64) in BlobRequest(handle: AnswerHandle(number: number), digest: digest(1)) }
        #expect(run.on(.wanted(request(1))) == ["serve 1"])
        #expect(run.on(.wanted(request(2))) == [])
        #expect(run.machine.waitingRequests == 1)
        #expect(run.on(.served(AnswerHandle(number: 1))) == ["serve 2"])
        run.on(.served(AnswerHandle(number: 2)))
        #expect(run.machine.isIdle)
    }
}
