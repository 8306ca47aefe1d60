import Documents
import Interfaces
import NIOCore
import Testing

@testable import Replication

/// The blobs of one connection: they are written as they arrive, shared between documents, and bounded.
@Suite struct BlobMachineTests {
    private struct Run {
        var machine: BlobMachine
        /// The latest attempt at each blob.
        private var transfers: [BlobDigest: BlobTransfer] = [:]

        init(_ change: (inout ReplicationLimits) -> Void = { _ in }) {
            var limits = ReplicationLimits()
            change(&limits)
            machine = BlobMachine(limits)
        }

        @discardableResult
        mutating func on(_ event: BlobEvent) -> [String] {
            var actions: [BlobAction] = []
            machine.handle(event, &actions)
            for case .look(let transfer) in actions { transfers[transfer.digest] = transfer }
            for case .begin(let transfer, _) in actions { transfers[transfer.digest] = transfer }
            for case .askProof(let transfer, _, _) in actions { transfers[transfer.digest] = transfer }
            return actions.map { Self.words($0) }
        }

        /// The current attempt at a blob, by the byte that it is made of.
        func at(_ byte: UInt8) -> BlobTransfer { transfers[digest(byte)] ?? BlobTransfer(digest: digest(byte), number: -1) }

        /// Gets a blob to the point where its file is open and it has been requested.
        mutating func open(_ byte: UInt8) {
            on(.looked(at(byte), isHere: false))
            on(.writerOpened(at(byte)))
        }

        private static func name(_ it: BlobTransfer) -> String { (0..<20).first { digest($0) == it.digest }.map { "\($0)" } ?? "?" }

        private static func words(_ action: BlobAction) -> String {
            switch action {
            case .look(let it): "look \(name(it))"
            case .askProof(let it, _, let id): "prove \(name(it)) for \(id)"
            case .checkProof(let it, _): "check \(name(it))"
            case .begin(let it, let resumes): "begin \(name(it))\(resumes ? "" : " anew")"
            case .request(let it, _, let id, let compresses, let offset):
                "request \(name(it)) for \(id)\(compresses ? " compressed" : "")\(offset > 0 ? " from \(offset)" : "")"
            case .startOver(let it): "start \(name(it)) over"
            case .resumed(let it, let offset): "resumed \(name(it)) at \(offset)"
            case .write(let it, let bytes): "write \(name(it)) \(bytes.readableBytes)"
            case .consumed(let it, let count): "consumed \(name(it)) \(count)"
            case .install(let it): "install \(name(it))"
            case .abandon(let it): "abandon \(name(it))"
            case .tell(let waiter, let error): "tell \(waiter.fetch.number) \(error.map { "\($0.code)" } ?? "ok")"
            case .serve(let request): "serve \(request.handle.number)"
            case .refuse(let request): "refuse \(request.handle.number)"
            }
        }
    }

    private func needed(_ number: Int, _ bytes: UInt8..., length: UInt64? = 5, known: Set<UInt8> = []) -> BlobEvent {
        .needed(
            BlobWaiter(slot: 0, fetch: FetchID(number: number)), doc("d\(number)"),
            bytes.map { BlobReference(digest: digest($0), length: length, contentType: "image/png") }, known: .some(Set(known.map(digest))))
    }

    private func bytes(_ count: Int) -> ByteBuffer { ByteBuffer(repeating: 7, count: count) }

    @Test func aBlobIsRequestedWrittenAcknowledgedAndInstalled() {
        var run = Run()
        #expect(run.on(needed(1, 1)) == ["look 1"])
        #expect(run.on(.looked(run.at(1), isHere: false)) == ["begin 1"])
        #expect(run.on(.writerOpened(run.at(1))) == ["request 1 for d1"])
        #expect(run.on(.bytesArrived(run.at(1), bytes(3))) == ["write 1 3"])
        // The peer may send more only once what it sent is on disk.
        #expect(run.on(.written(run.at(1), bytes: 3)) == ["consumed 1 3"])
        run.on(.bytesArrived(run.at(1), bytes(2)))
        #expect(run.on(.ended(run.at(1))) == [])
        #expect(run.on(.written(run.at(1), bytes: 2)) == ["consumed 1 2", "install 1"])
        #expect(run.machine.isFetching)
        #expect(run.on(.installed(run.at(1))) == ["tell 1 ok"] && run.machine.isIdle)
    }

    @Test func noMoreIsTakenThanItsDocumentsSay() {
        var run = Run()
        run.on(needed(1, 1))
        run.on(.looked(run.at(1), isHere: false))
        run.on(.writerOpened(run.at(1)))
        #expect(run.on(.bytesArrived(run.at(1), bytes(6))) == ["abandon 1", "tell 1 400"] && run.machine.isIdle)
    }

    @Test func aBlobContinuesWhereAnEarlierConnectionEnded() {
        var run = Run { $0.maximumBlobBytes = 6 }
        run.on(needed(1, 1))
        run.on(.looked(run.at(1), isHere: false))
        #expect(run.on(.writerOpened(run.at(1), offset: 3)) == ["request 1 for d1 from 3"])
        #expect(run.on(.resumes(run.at(1), isRest: true)) == ["resumed 1 at 3"])
        #expect(run.on(.bytesArrived(run.at(1), bytes(2))) == ["write 1 2"])
        run.on(.written(run.at(1), bytes: 2))
        #expect(run.on(.ended(run.at(1))) == ["install 1"])
        // The part that was there was from another blob, or had been altered on the disk.
        #expect(run.on(.assembledWrongly(run.at(1))) == ["begin 1 anew"])
        #expect(run.on(.writerOpened(run.at(1))) == ["request 1 for d1"])
        #expect(run.on(.bytesArrived(run.at(1), bytes(5))) == ["write 1 5"])
        run.on(.ended(run.at(1)))
        #expect(run.on(.written(run.at(1), bytes: 5)) == ["consumed 1 5", "install 1"])
        #expect(run.on(.installed(run.at(1))) == ["tell 1 ok"])
        #expect(run.machine.isIdle)
    }

    /// What is already here counts towards the limit, but not if the peer sends the whole blob.
    @Test func aPeerThatCannotResumeSendsTheWholeBlob() {
        var run = Run { $0.maximumBlobBytes = 6 }
        run.on(needed(1, 1, 2))
        for byte in [1, 2] as [UInt8] {
            run.on(.looked(run.at(byte), isHere: false))
            run.on(.writerOpened(run.at(byte), offset: 3))
        }
        #expect(run.on(.resumes(run.at(1), isRest: false)) == ["start 1 over"])
        #expect(run.on(.bytesArrived(run.at(1), bytes(5))) == ["write 1 5"])
        #expect(run.on(.resumes(run.at(2), isRest: true)) == ["resumed 2 at 3"])
        #expect(run.on(.bytesArrived(run.at(2), bytes(5))) == ["abandon 2", "tell 1 413", "abandon 1"])
        #expect(run.machine.isIdle)
    }

    @Test func itIsNotInstalledBeforeItsLastByteIsWritten() {
        var run = Run()
        run.on(needed(1, 1, length: 7))
        run.open(1)
        run.on(.bytesArrived(run.at(1), bytes(3)))
        run.on(.bytesArrived(run.at(1), bytes(4)))
        #expect(run.on(.ended(run.at(1))) == [])
        #expect(run.on(.written(run.at(1), bytes: 3)) == ["consumed 1 3"])
        #expect(run.on(.written(run.at(1), bytes: 4)) == ["consumed 1 4", "install 1"])
    }

    @Test func anEmptyBlobIsInstalledAtItsEnd() {
        var run = Run()
        run.on(needed(1, 1, length: 0))
        run.open(1)
        #expect(run.on(.ended(run.at(1))) == ["install 1"])
    }

    @Test func aBlobThatIsHereAndThatThePeerMayHaveIsNotRequested() {
        var run = Run()
        run.on(needed(1, 1, 2, 1, known: [1, 2]))
        #expect(run.on(.looked(run.at(1), isHere: true)) == [])
        #expect(run.on(.looked(run.at(2), isHere: true)) == ["tell 1 ok"])
        #expect(run.machine.isIdle)
        // What is not here is fetched, even if the peer may have it anyway.
        run.on(needed(2, 3, known: [3]))
        #expect(run.on(.looked(run.at(3), isHere: false)) == ["begin 3"])
    }

    @Test func aBlobThatIsHereHasToBeProvedOnce() {
        var run = Run()
        run.on(needed(1, 1))
        #expect(run.on(.looked(run.at(1), isHere: true)) == ["prove 1 for d1"])
        #expect(run.on(.proofArrived(run.at(1), digest(9))) == ["check 1"])
        #expect(run.on(.proofChecked(run.at(1), .right)) == ["tell 1 ok"])
        run.on(needed(2, 1))
        #expect(run.on(.looked(run.at(1), isHere: true)) == ["tell 2 ok"])
        #expect(run.machine.isIdle)
    }

    @Test func aPeerThatCannotProveItHasToSendTheBlob() {
        var run = Run()
        run.on(needed(1, 1))
        run.on(.looked(run.at(1), isHere: true))
        #expect(run.on(.proofArrived(run.at(1), nil)) == ["begin 1"])
        #expect(run.on(.writerOpened(run.at(1))) == ["request 1 for d1"])
        run.on(.ended(run.at(1)))
        #expect(run.on(.installed(run.at(1))) == ["tell 1 ok"])
        // The next time, too, a proof is requested first.
        run.on(needed(2, 2))
        #expect(run.on(.looked(run.at(2), isHere: true)) == ["prove 2 for d2"])
        run.on(.proofArrived(run.at(2), nil))
        run.on(.writerOpened(run.at(2)))
        #expect(run.on(.failed(run.at(2), http(404))) == ["abandon 2", "tell 2 404"])
        #expect(run.machine.isIdle)
    }

    /// A wrong proof costs the peer nothing, but we have to read the blob to check it: from then on only the bytes count.
    @Test func afterAWrongProofNoneIsRequested() {
        var run = Run()
        run.on(needed(1, 1))
        run.on(.looked(run.at(1), isHere: true))
        run.on(.proofArrived(run.at(1), digest(9)))
        #expect(run.on(.proofChecked(run.at(1), .wrong)) == ["begin 1"])
        run.on(needed(2, 2))
        #expect(run.on(.looked(run.at(2), isHere: true)) == ["begin 2"])
    }

    /// If our own file is damaged, that is not the peer's fault.
    @Test func ifOurOwnBlobCannotBeReadItIsFetched() {
        var run = Run()
        run.on(needed(1, 1))
        run.on(.looked(run.at(1), isHere: true))
        run.on(.proofArrived(run.at(1), digest(9)))
        #expect(run.on(.proofChecked(run.at(1), .unknown)) == ["begin 1"])
        run.on(needed(2, 2))
        #expect(run.on(.looked(run.at(2), isHere: true)) == ["prove 2 for d2"])
    }

    /// One document may have the blob anyway; another only names it.
    @Test func aDocumentThatMayHaveTheBlobDoesNotWaitForAnothersProof() {
        var run = Run()
        run.on(needed(1, 1))
        run.on(needed(2, 1, known: [1]))
        #expect(run.on(.looked(run.at(1), isHere: true)) == ["tell 2 ok", "prove 1 for d1"])
        #expect(run.on(needed(3, 1, known: [1])) == ["tell 3 ok"])
        run.on(.proofArrived(run.at(1), nil))
        run.on(.writerOpened(run.at(1)))
        #expect(run.on(.failed(run.at(1), http(404))) == ["abandon 1", "tell 1 404"])
    }

    @Test func aDocumentWithTooManyBlobsIsRefused() {
        var run = Run { $0.maximumBlobsPerDocument = 2 }
        #expect(run.on(needed(1, 1, 2, 3)) == ["tell 1 413"])
        #expect(run.machine.isIdle)
    }

    /// Of thousands, a few are under way at a time, and only the names of the others are held.
    @Test func aRevisionWaitsForAFewOfItsBlobsAtATime() {
        var run = Run { ($0.awaitedBlobs, $0.blobLookUps, $0.blobFetches) = (8, 20, 20) }
        #expect(run.on(needed(1, 1, 2, 3, 4, 2)) == ["look 1", "look 2"])
        let held = run.machine.bytes
        // Another revision's blobs need not wait until all of these are done.
        #expect(run.on(needed(2, 5, 1)) == ["look 5"])
        #expect(run.machine.bytes - held < 2 * (HeldBytes.transfer + HeldBytes.need) + HeldBytes.waiter)
        run.on(.looked(run.at(1), isHere: false))
        run.on(.looked(run.at(2), isHere: false))
        run.on(.writerOpened(run.at(2)))
        run.on(.ended(run.at(2)))
        #expect(run.on(.installed(run.at(2))) == ["look 3"])
        run.on(.writerOpened(run.at(1)))
        run.on(.ended(run.at(1)))
        #expect(run.on(.installed(run.at(1))) == ["look 4"])
        #expect(run.on(.looked(run.at(5), isHere: false)) == ["begin 5"])
        for blob in [3, 4] as [UInt8] { run.open(blob) }
        for (blob, then) in [(3, ["look 2"]), (4, []), (5, ["tell 2 ok"])] as [(UInt8, [String])] {
            if blob == 5 { run.on(.writerOpened(run.at(5))) }
            run.on(.ended(run.at(blob)))
            #expect(run.on(.installed(run.at(blob))) == then)
        }
        // It is named twice, and then found to be here.
        #expect(run.machine.isFetching && run.on(.looked(run.at(2), isHere: true)) == ["tell 1 ok"])
        #expect(run.machine.isIdle && run.machine.bytes == 0)
    }

    @Test func aMissingBlobEndsARevisionThatWaitsForMore() {
        var run = Run { $0.awaitedBlobs = 4 }
        run.on(needed(1, 1, 2, 3))
        #expect(run.on(needed(2, 2, 4)) == ["look 2"])
        #expect(run.on(.failed(run.at(1), http(404))).contains("tell 1 404"))
        run.on(.looked(run.at(2), isHere: false))
        run.on(.writerOpened(run.at(2)))
        run.on(.ended(run.at(2)))
        #expect(run.on(.installed(run.at(2))) == ["look 4"])
        run.on(.failed(run.at(4), http(503)))
        #expect(run.machine.isIdle && run.machine.bytes == 0)
    }

    @Test func revisionsShareATransfer() {
        var run = Run()
        run.on(needed(1, 1))
        run.open(1)
        #expect(run.on(needed(2, 1)) == [])
        run.on(.ended(run.at(1)))
        #expect(run.on(.installed(run.at(1))) == ["tell 1 ok", "tell 2 ok"])
    }

    @Test func aBlobThatNobodyWaitsForAnyMoreIsGivenUp() {
        var run = Run { $0.blobFetches = 3 }
        run.on(needed(1, 1, 2, 3, 4, 5))
        run.open(1)
        run.open(2)
        run.on(.bytesArrived(run.at(2), bytes(3)))
        run.on(.looked(run.at(3), isHere: false))
        run.on(.looked(run.at(4), isHere: false))
        run.on(needed(2, 3))
        // 2 has begun, 3 is needed by another revision, 4 waits for its turn, and 5 is being looked up.
        let late = (two: run.at(2), five: run.at(5))
        #expect(run.on(.failed(run.at(1), http(404))) == ["abandon 1", "tell 1 404", "abandon 2"])
        #expect(run.on(.written(late.two, bytes: 3)) == ["consumed 2 3"])
        #expect(run.on(.looked(late.five, isHere: false)) == [])
        // A new attempt must not be mistaken for the one that was given up.
        run.on(needed(3, 2))
        run.on(.looked(run.at(2), isHere: false))
        #expect(run.on(.bytesArrived(late.two, bytes(2))) == [] && run.on(.ended(late.two)) == [])
        #expect(run.on(.writerOpened(late.two)) == ["abandon 2"])
        #expect(run.on(.writerOpened(run.at(2))) == ["request 2 for d3"])
        for blob in [2, 3] as [UInt8] {
            run.on(.writerOpened(run.at(blob)))
            run.on(.ended(run.at(blob)))
        }
        #expect(run.on(.installed(run.at(2))) == ["tell 3 ok"])
        #expect(run.on(.installed(run.at(3))) == ["tell 2 ok"])
        #expect(run.machine.isIdle)
    }

    /// The document for which it was requested has been purged at the peer, but another one with the same blob has not.
    @Test func aBlobRefusedForOneDocumentIsRequestedForTheNext() {
        var run = Run()
        run.on(needed(1, 1))
        run.on(needed(2, 1))
        run.on(needed(3, 1))
        run.open(1)
        let first = run.at(1)
        #expect(run.on(.failed(first, http(403))) == ["abandon 1", "tell 1 403", "begin 1"])
        #expect(run.on(.writerOpened(run.at(1))) == ["request 1 for d2"])
        // What still arrives for the first attempt does not affect the second.
        #expect(run.on(.ended(first)) == [] && run.at(1) != first)
        #expect(run.on(.failed(run.at(1), http(404))) == ["abandon 1", "tell 2 404", "begin 1"])
        #expect(run.on(.writerOpened(run.at(1))) == ["request 1 for d3"])
        run.on(.ended(run.at(1)))
        #expect(run.on(.installed(run.at(1))) == ["tell 3 ok"])
        #expect(run.machine.isIdle)
    }

    /// A permanent or temporary failure of the blob concerns all documents that need it.
    @Test func aFailureThatConcernsNoParticularDocumentIsReportedToAllThatWait() {
        var run = Run()
        for code in [400, 503] {
            run.on(needed(1, 1))
            run.on(needed(2, 1))
            run.open(1)
            #expect(run.on(.failed(run.at(1), http(code))) == ["abandon 1", "tell 1 \(code)", "tell 2 \(code)"])
        }
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
        run.on(needed(1, 1, length: nil))
        run.on(needed(2, 1, length: nil))
        run.open(1)
        #expect(run.on(.bytesArrived(run.at(1), bytes(10))) == ["write 1 10"])
        #expect(run.on(.bytesArrived(run.at(1), bytes(1))) == ["abandon 1", "tell 1 413", "tell 2 413"])
        // Nobody waits any more for what still arrives or is being written.
        #expect(run.on(.bytesArrived(run.at(1), bytes(1))) == [] && run.on(.ended(run.at(1))) == [])
        #expect(run.machine.isIdle)
    }

    @Test func onlyAFewAreFetchedAtATimeAndAFailureMakesRoom() {
        var run = Run { $0.blobFetches = 1 }
        run.on(needed(1, 1))
        run.on(needed(2, 2))
        #expect(run.on(.looked(run.at(1), isHere: false)) == ["begin 1"])
        #expect(run.on(.looked(run.at(2), isHere: false)) == [])
        #expect(run.on(.failed(run.at(1), http(503))) == ["abandon 1", "tell 1 503", "begin 2"])
        run.on(.writerOpened(run.at(2)))
        run.on(.ended(run.at(2)))
        #expect(run.on(.installed(run.at(2))) == ["tell 2 ok"])
        #expect(run.machine.isIdle)
    }

    @Test func aFailureBeforeASlotWasTakenFreesNone() {
        var run = Run { $0.blobFetches = 1 }
        run.on(needed(1, 1))
        run.on(.failed(run.at(1), http(503)))
        run.on(needed(2, 2))
        run.on(needed(3, 3))
        #expect(run.on(.looked(run.at(2), isHere: false)) == ["begin 2"])
        #expect(run.on(.looked(run.at(3), isHere: false)) == [])
    }

    @Test func onlyAFewAreServedAtATime() {
        var run = Run { $0.blobReads = 1 }
        let request = { (number: UInt64) in BlobRequest(handle: AnswerHandle(number: number), slot: 0, digest: digest(1)) }
        #expect(run.on(.wanted(request(1))) == ["serve 1"])
        #expect(run.on(.wanted(request(2))) == [])
        #expect(run.machine.waitingRequests == 1)
        #expect(run.on(.served(AnswerHandle(number: 1))) == ["serve 2"])
        run.on(.served(AnswerHandle(number: 2)))
        #expect(run.machine.isIdle)
    }

    @Test func ofTooManyRequestsTheLastAreRefused() {
        var run = Run {
            $0.blobReads = 1
            $0.queuedRequests = 32
        }
        let request = { (number: UInt64) in BlobRequest(handle: AnswerHandle(number: number), slot: 0, digest: digest(1)) }
        for number in 1...33 { run.on(.wanted(request(UInt64(number)))) }
        #expect(run.machine.waitingRequests == 32)
        #expect(run.on(.wanted(request(34))) == ["refuse 34"])
        #expect(run.on(.served(AnswerHandle(number: 1))) == ["serve 2"])
        #expect(run.on(.wanted(request(35))) == [])
    }
}
