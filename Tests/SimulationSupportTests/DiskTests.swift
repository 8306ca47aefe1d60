import Environment
import Glibc
import SimulationSupport
import Testing

@Suite struct DiskTests {
    private func disk(_ seed: UInt64) throws -> SimulatedDisk {
        let disk = SimulatedDisk(time: StandingClock(), random: SeededRandom(seed: seed))
        try disk.makeFolder("/data")
        try disk.syncFolder("/")
        return disk
    }

    private func append(_ file: any OpenFile, _ bytes: [UInt8]) throws {
        try bytes.withUnsafeBytes { bytes in Result { () throws(FileError) in try file.append(bytes) } }.get()
    }

    @Test func whatWasSyncedSurvivesAndTheRestDependsOnChance() throws {
        let synced = [UInt8](repeating: 1, count: 3000)
        let rest = [UInt8](repeating: 2, count: 3000)
        var lost = 0, whole = 0, torn = 0
        for seed in 0..<200 {
            let disk = try disk(UInt64(seed))
            let file = try disk.open("/data/a", .create)
            try append(file, synced)
            try file.sync()
            try disk.syncFolder("/data")
            try append(file, rest)
            #expect(disk.bytes("/data/a") == synced + rest)
            disk.crash(SeededRandom(seed: UInt64(seed)))
            let after = try #require(disk.bytes("/data/a"))
            // Not within the macro, which would print all of the bytes.
            let hasSynced = after.starts(with: synced)
            #expect(hasSynced, "seed \(seed)")
            if after == synced { lost += 1 } else if after == synced + rest { whole += 1 } else { torn += 1 }
            // What was open is dead.
            #expect(throws: FileError(path: "/data/a", number: EIO)) { try file.sync() }
        }
        #expect(lost > 20 && whole > 20 && torn > 20, "\(lost) lost, \(whole) whole, \(torn) torn")
    }

    @Test func namesAreDurableWhenTheirFolderIsSynced() throws {
        var kept = 0
        for seed in 0..<100 {
            let disk = try disk(UInt64(seed))
            for name in ["old", "new"] {
                let file = try disk.open("/data/\(name)", .create)
                try append(file, Array(name.utf8))
                try file.sync()
            }
            try disk.syncFolder("/data")
            try disk.rename("/data/new", to: "/data/old")
            let syncs = seed % 2 == 0
            if syncs { try disk.syncFolder("/data") }
            disk.crash(SeededRandom(seed: UInt64(seed)))
            let isNew = disk.bytes("/data/old") == Array("new".utf8)
            if syncs {
                #expect(isNew)
            } else {
                #expect(isNew || disk.bytes("/data/old") == Array("old".utf8))
                kept += isNew ? 1 : 0
            }
        }
        #expect(kept > 5 && kept < 45)
    }

    @Test func callsFailAsPlanned() throws {
        let disk = try disk(1)
        let file = try disk.open("/data/../data/./a", .create)
        disk.failNext(.write, ENOSPC, after: 1)
        try append(file, [1])
        #expect(throws: FileError(path: "/data/../data/./a", number: ENOSPC)) { try append(file, [2]) }
        try append(file, [3])
        disk.failNext(.sync, EIO)
        #expect(throws: FileError.self) { try file.sync() }
        try file.sync()
        #expect(disk.faults == 2)
        #expect(try disk.names(in: "/data") == ["a"])
        #expect(disk.corrupt("/data/a", offset: 0))
        #expect(disk.bytes("/data/a")?.first == 0)
        disk.changesUntilPowerCut = 0
        #expect(throws: FileError.self) { try file.sync() }
        #expect(throws: FileError.self) { try disk.facts("/data/a") }
    }

    @Test func lockHasOneOwnerAndEndsInACrash() throws {
        let disk = try disk(1)
        guard case .taken(let lock) = try disk.lock("/data/lock") else { return #expect(Bool(false)) }
        guard case .held = try disk.lock("/data/lock") else { return #expect(Bool(false)) }
        disk.crash(SeededRandom(seed: 1))
        guard case .taken(let next) = try disk.lock("/data/lock") else { return #expect(Bool(false)) }
        // The dead owner's lock is not the new one's.
        lock.release()
        guard case .held = try disk.lock("/data/lock") else { return #expect(Bool(false)) }
        next.release()
        guard case .taken = try disk.lock("/data/lock") else { return #expect(Bool(false)) }
    }
}
