import Digests
import DocumentStore
import Documents
import Environment
import Glibc
import SimulationSupport
import Testing

/// The whole store on a simulated machine: one thread, a disk in memory, chance from a seed.
@Suite struct StoreTests {
    private func open(_ machine: Machine, _ options: DatabaseOptions = .init()) throws -> (Database, Collection) {
        if (try? machine.disk.facts("/data")) == nil {
            try machine.disk.makeFolder("/data")
            try machine.disk.syncFolder("/")
        }
        let database = try Database.open(folder: "/data/a.nightjar", name: "a", options: options, environment: machine.environment)
        return (database, try #require(database.collection(.default)))
    }

    private func save(_ database: Database, _ c: Collection, _ id: String, _ answers: Answers<SavedRevision>) {
        let id = DocumentID(stored: id)
        database.write({ try $0.save(c, id: id, body: Array(#"{"a":1}"#.utf8), parent: nil) }, completion: { answers.take($0) })
    }

    @Test func nothingHappensUntilTheSchedulerSaysSo() throws {
        let machine = Machine(seed: 1)
        let (database, c) = try open(machine)
        let saved = Answers<SavedRevision>()
        for n in 0..<5 { save(database, c, "d\(n)", saved) }
        #expect(saved.all.isEmpty)
        machine.run()
        #expect(saved.successes.map(\.sequence) == [1, 2, 3, 4, 5])
        // Who cannot wait runs the reader's turn itself.
        #expect(try database.readNow { try $0.lastSequence(c) } == 5)
        let name = try CollectionName(parsing: "other")
        #expect(try database.createCollection(name).name == name)
        database.close()
    }

    @Test func aDiskThatDoesNotAnswerIsNoLostDatabase() throws {
        let machine = Machine(seed: 3)
        let (database, c) = try open(machine)
        let saved = Answers<SavedRevision>()
        save(database, c, "d", saved)
        machine.run()
        database.close()
        machine.disk.faultRates = [.read: 0.5]
        var failures = 0
        for _ in 0..<40 {
            do { try Database.open(folder: "/data/a.nightjar", name: "a", environment: machine.environment).close() } catch {
                failures += 1
                guard case .inputOutput = error else { Issue.record("\(error)"); continue }
            }
        }
        #expect(failures > 0)
        machine.disk.faultRates = [:]
        let (again, collection) = try open(machine)
        #expect(try again.readNow { try $0.document(collection, DocumentID(stored: "d")) } != nil)
        again.close()
    }

    @Test func sameSeedDoesTheSame() throws {
        func run() throws -> (String, Int, [UInt8]?) {
            let machine = Machine(seed: 7)
            let (database, c) = try open(machine)
            let saved = Answers<SavedRevision>()
            for n in 0..<50 { save(database, c, "d\(n)", saved) }
            machine.run()
            database.close()
            return (database.privateUUID, machine.disk.changes, machine.disk.bytes("/data/a.nightjar/db.sqlite3"))
        }
        let first = try run()
        let second = try run()
        #expect(first.0 == second.0 && first.1 == second.1 && first.2 == second.2 && first.2 != nil)
    }

    @Test func acknowledgedWritesAndBlobsSurviveCrashes() throws {
        for seed in 1...60 {
            let machine = Machine(seed: UInt64(seed))
            var (database, c) = try open(machine)
            var kept: [String] = []
            var digests: [BlobDigest] = []
            for round in 0..<4 {
                machine.disk.changesUntilPowerCut = machine.random.below(80)
                let saved = Answers<(String, SavedRevision)>()
                let installed = Answers<BlobDigest>()
                for n in 0..<30 {
                    let id = "d\(round)-\(n)"
                    database.write(
                        { [c] in (id, try $0.save(c, id: DocumentID(stored: id), body: Array(#"{"a":1}"#.utf8), parent: nil)) },
                        completion: { saved.take($0) })
                    database.blobs.perform({ try $0.install(Array("blob \(id)".utf8)) }, completion: { installed.take($0) })
                    if machine.random.chance(0.5) { machine.run() }
                }
                machine.run()
                #expect(saved.all.count == 30 && installed.all.count == 30, "seed \(seed): somebody waits for ever")
                kept += saved.successes.map(\.0)
                digests += installed.successes
                machine.crash()
                (database, c) = try open(machine)
                let ids = kept
                let present = try database.readNow { [c] view in try ids.filter { try view.document(c, DocumentID(stored: $0)) != nil } }
                #expect(present == ids, "seed \(seed)")
                for digest in digests { #expect(throws: Never.self, "seed \(seed)") { try database.blobs.read(digest) } }
            }
            database.close()
        }
    }

    /// Its name is there, but a power failure would remove it: the caller is about to refer to it.
    @Test(arguments: [false, true]) func aBlobWhoseNameIsNotDurableIsNotTakenForStored(_ restarts: Bool) throws {
        let bytes = Array("a blob".utf8)
        for seed in 1...20 {
            let machine = Machine(seed: UInt64(seed))
            var (database, _) = try open(machine)
            // The file's own sync works, that of its folder does not.
            machine.disk.failNext(.sync, EIO, after: 1)
            #expect(throws: StoreError.self) { try database.blobs.install(bytes) }
            let digest = try #require(BlobDigest(bytes: SHA1.hash(bytes)))
            if restarts {
                database.close()
                (database, _) = try open(machine)
            }
            machine.disk.failNext(.sync, EIO)
            #expect(!database.blobs.contains(digest), "seed \(seed)")
            #expect(database.blobs.contains(digest), "seed \(seed)")
            machine.crash()
            (database, _) = try open(machine)
            #expect(throws: Never.self, "seed \(seed)") { try database.blobs.read(digest) }
            database.close()
        }
    }

    @Test func writesHearOfAFailingDisk() throws {
        let machine = Machine(seed: 3)
        let (database, c) = try open(machine)
        for fault in [(SimulatedDisk.Operation.write, ENOSPC), (.sync, EIO), (.write, EIO)] {
            let saved = Answers<SavedRevision>()
            machine.disk.failNext(fault.0, fault.1)
            for n in 0..<3 { save(database, c, "lost\(n)", saved) }
            machine.run()
            #expect(saved.all.count == 3)
            for answer in saved.all {
                guard case .failure(let error as StoreError) = answer else { return #expect(Bool(false), "\(fault): \(answer)") }
                switch error {
                case .diskFull: #expect(fault.1 == ENOSPC)
                case .inputOutput: #expect(fault.1 == EIO)
                default: #expect(Bool(false), "\(fault): \(error)")
                }
            }
        }
        let saved = Answers<SavedRevision>()
        save(database, c, "lost0", saved)
        machine.run()
        #expect(saved.successes.map(\.sequence) == [1])
        database.close()
    }

    /// As where the reserve of the disk is given up in that moment.
    @Test func whatMetAFullDiskIsTriedOnceMoreWhereThereIsRoomNow() throws {
        let machine = Machine(seed: 5)
        var options = DatabaseOptions()
        options.onDiskFailure = { true }
        let (database, c) = try open(machine, options)
        let saved = Answers<SavedRevision>()
        machine.disk.failNext(.write, ENOSPC)
        for n in 0..<3 { save(database, c, "a\(n)", saved) }
        machine.run()
        #expect(saved.successes.map(\.sequence) == [1, 2, 3])
        // Once: the one that meets it again hears of it, and does not take the others with it.
        let again = Answers<SavedRevision>()
        for _ in 0..<2 { machine.disk.failNext(.write, ENOSPC) }
        for n in 0..<3 { save(database, c, "b\(n)", again) }
        machine.run()
        #expect(again.all.count == 3 && again.successes.map(\.sequence) == [4, 5], "\(again.all)")
        guard case .failure(let error as StoreError)? = again.all.first, case .diskFull = error else { return #expect(Bool(false), "\(again.all)") }
        // Another failure than that of a full disk is none of room.
        let broken = Answers<SavedRevision>()
        machine.disk.failNext(.sync, EIO)
        save(database, c, "c", broken)
        machine.run()
        #expect(broken.all.count == 1 && broken.successes.isEmpty)
        database.close()
    }

    @Test func blobThatTheDiskAlteredIsNotServed() throws {
        let machine = Machine(seed: 4)
        let (database, _) = try open(machine)
        let digest = try database.blobs.install(Array(repeating: 7, count: 5000))
        let path = try #require(machine.disk.paths.first { $0.hasSuffix(digest.hex) })
        #expect(machine.disk.corrupt(path, offset: 4321))
        #expect(throws: StoreError.blobAltered(digest: digest.text, path: path)) { try database.blobs.read(digest) }
        database.close()
    }
}
