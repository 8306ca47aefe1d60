import AgentConfiguration
import Environment
import Glibc
import Logging
import TestSupport
import Testing

@testable import Agent
@testable import DocumentStore

/// How much of a disk may still be written, and what is kept of it for the moment when it is full.
@Suite struct DiskRoomTests {
    private let mebibyte = 1 << 20

    private func folder() throws -> String { try TemporaryFolder.untilTheEnd() }

    /// Of 1,000 MiB.
    private func space(_ folder: String, free: Int) throws -> DiskSpace {
        var space = try #require(DiskSpace(of: folder))
        (space.free, space.total) = (UInt64(free * mebibyte), UInt64(1_000 * mebibyte))
        return space
    }

    private func room(_ free: Int, pending: Int = 0, _ need: DiskReserve.Need? = nil, _ change: (inout DiskSettings) -> Void = { _ in }) throws -> DiskRoom {
        var settings = DiskSettings()
        change(&settings)
        return DiskRoom(try space("/", free: free), settings, need, folder: "/data", pending: pending)
    }

    @Test func whatFitsEndsAtTheMarkOfWhoWrites() throws {
        let room = try room(150)
        #expect(room.refusal(of: .local, bytes: 49 * mebibyte, written: 0) == nil)
        #expect(room.refusal(of: .local, bytes: 51 * mebibyte, written: 0)?.contains("90 % (disk.refuse_writes)") == true)
        #expect(room.refusal(of: .peers, bytes: 99 * mebibyte, written: 0) == nil)
        #expect(room.refusal(of: .peers, bytes: 101 * mebibyte, written: 0)?.contains("95 % (disk.read_only)") == true)
        // What was written since counts, and what is still to be written.
        #expect(room.refusal(of: .local, bytes: 20 * mebibyte, written: 40 * mebibyte) != nil)
        #expect(try self.room(150, pending: 40 * mebibyte).refusal(of: .local, bytes: 20 * mebibyte, written: 0) != nil)
        #expect(room.least == 50 * mebibyte)
    }

    @Test func aDiskThatIsFullIsNotGoingToBe() throws {
        var space = try self.space("/", free: 2)
        #expect(Agent.diskAttention("/data", space).remedy == "make room: once it is full, writes fail")
        for free in [0, (1 << 20) - 1] as [UInt64] {
            space.free = free
            let attention = Agent.diskAttention("/data", space)
            #expect(attention.text == "0 MiB of 1000 MiB free" && attention.remedy == "make room: it is full, and writes fail")
        }
    }

    @Test func enoughIsEnough() throws {
        let room = try room(80) { $0.enough = 20 * mebibyte }
        #expect(room.refusal(of: .local, bytes: 59 * mebibyte, written: 0) == nil && room.state(.open) == nil)
        #expect(room.refusal(of: .local, bytes: 61 * mebibyte, written: 0) != nil)
    }

    @Test func aDiskWithoutMarksTakesWhatThereIs() throws {
        let room = try room(30) { ($0.refuseWrites, $0.readOnly) = (Located(100), Located(100)) }
        #expect(room.state(.open) == nil && room.refusal(of: .local, bytes: 29 * mebibyte, written: 0) == nil)
        #expect(room.refusal(of: .local, bytes: 31 * mebibyte, written: 0)?.contains("until it is full") == true)
    }

    @Test func aReserveThatWasGivenUpIsForDeletionsOnly() throws {
        let need = DiskReserve.Need(size: UInt64(4 * mebibyte), floor: UInt64(8 * mebibyte), isReleased: true)
        let room = try room(6, need) { ($0.refuseWrites, $0.readOnly) = (Located(100), Located(100)) }
        #expect(room.state(.open)?.level == .readOnly && room.state(.open)?.reason.contains("disk.reserve") == true)
        #expect(try self.room(9, need) { ($0.refuseWrites, $0.readOnly) = (Located(100), Located(100)) }.state(.open) == nil)
    }

    @Test func theReserveIsGivenUpOnAFullDiskAndMadeAgainWhenThereIsRoom() throws {
        let folder = try folder()
        let reserve = DiskReserve(folder: folder, logger: Logger(label: "test"))
        let file = "\(folder)/\(DiskReserve.name)"
        func size() -> Int? {
            var facts = stat()
            return stat(file, &facts) == 0 ? Int(facts.st_blocks) * 512 : nil
        }
        let wanted = mebibyte
        reserve.look(wanted: wanted)
        #expect(size() == wanted)
        // Half of it is left beside it: it stays. Then the disk is full.
        #expect(reserve.need(try space(folder, free: 1), wanted: wanted)?.isReleased == false && size() == wanted)
        #expect(reserve.need(try space(folder, free: 0), wanted: wanted)?.isReleased == true && size() == nil)
        // Not with the room that it has left itself.
        #expect(reserve.need(try space(folder, free: 2), wanted: wanted)?.isReleased == true && size() == nil)
        #expect(reserve.need(try space(folder, free: 3), wanted: wanted)?.isReleased == false && size() == wanted)
        #expect(reserve.need(try space(folder, free: 3), wanted: 0) == nil && size() == nil)
        // At most a 32nd of its disk.
        #expect(reserve.need(try space(folder, free: 900), wanted: 100 * mebibyte)?.floor == UInt64(1_000 * mebibyte / 32 / 2))
        rmdir(folder)
    }

    @Test func theQuotaIsComparedWithWhatIsHeldAndNothingHasToBeLookedAtForThat() {
        let guardian = DiskGuard(dataFolder: "/", time: SystemTime(), logger: Logger(label: "test"))
        var (wanted, options) = (DatabaseSettings(), DatabaseOptions())
        wanted.quota = mebibyte
        guardian.watch(wanted, folder: "/", &options)
        options.usage.countedBlobs(900_000)
        #expect(options.refusal(.local, 100_000) == nil)
        #expect(options.refusal(.local, 200_000)?.contains("quota of 1 MiB") == true && guardian.state(wanted.name.value) == nil)
        // Nothing is kept for deltas.
        options.usage.changedBlobs(by: 40_000)
        #expect(options.refusal(.peers, 200_000) != nil && guardian.state(wanted.name.value) == nil && options.usage.isShort)
        options.usage.changedBlobs(by: 100_000)
        #expect(options.refusal(.peers, 1)?.contains("nothing but deletions") == true && guardian.state(wanted.name.value)?.isQuota == true)
        #expect(options.usage.isShort)
        options.usage.changedBlobs(by: -500_000)
        #expect(options.refusal(.peers, 100_000) == nil && guardian.state(wanted.name.value) == nil && !options.usage.isShort)
    }

    @Test func whatIsOnItsWayTakesRoomOfAQuotaButDoesNotReachIt() {
        let guardian = DiskGuard(dataFolder: "/", time: SystemTime(), logger: Logger(label: "test"))
        var (wanted, options) = (DatabaseSettings(), DatabaseOptions())
        wanted.quota = mebibyte
        guardian.watch(wanted, folder: "/", &options)
        let incoming = StoreUsage.Incoming(options.usage)
        incoming.came(mebibyte - 1_000)
        incoming.wrote(mebibyte - 1_000)
        withExtendedLifetime(incoming) {
            // The rest of one that fits is taken, although less than the margin is left.
            #expect(options.refusal(.peers, 1_000) == nil && guardian.state(wanted.name.value) == nil)
            #expect(options.refusal(.peers, 1_001)?.contains("do not fit") == true && guardian.state(wanted.name.value) == nil)
        }
    }
}
