/// How full the disk may get before the agent accepts less.
package struct DiskSettings: Sendable, ConfigurationSection {
    /// Percentage of disk usage from which local writes are refused. Default 90.
    package var refuseWrites = Located(90)
    /// Percentage from which nothing is accepted from peers either. Default 95.
    package var readOnly = Located(95)
    /// Free bytes with which a disk does not count as full, whatever the percentage. Default 4 GiB.
    package var enough = 4 << 30
    /// Seconds between two checks. Default 10.
    package var interval = 10
    /// Bytes reserved on the data folder's disk for when it is full. Default 4 MiB.
    package var reserve = 4 << 20
    package internal(set) var position = SourcePosition.none

    package init() {}

    static let sectionName = "disk"
    static let keys: [Key<DiskSettings>] = [
        Key("refuse_writes", \.refuseWrites, Form<Int>.integer(1...100, "percent").located,
            "Percent of a database's disk in use from which writes made here are refused with 507; 100 never."),
        Key("read_only", \.readOnly, Form<Int>.integer(1...100, "percent").located,
            "Percent in use from which nothing is accepted from peers either, except deletions. 100: never."),
        Key("enough", \.enough, Form<Int>.bytes(0...(1 << 50)), "With more free space than this, a disk does not count as full, whatever the percentage."),
        Key("interval", \.interval, .seconds(1...3_600), "Seconds between two checks of the disk while nothing is written."),
        Key("reserve", \.reserve, Form<Int>.bytes(0...(1 << 40)),
            "Bytes that a file in the data folder reserves on its disk, at most a 32nd of it; when the disk is full, they are released for deletions, compaction and "
                + "the log. 0: none."),
    ]

    package static func == (left: Self, right: Self) -> Bool { areSame(left, right) }

    func check(_ reading: inout Reading) {
        if readOnly.value < refuseWrites.value {
            reading.within(key: "read_only") {
                $0.report(
                    at: readOnly.position == .none ? refuseWrites.position : readOnly.position,
                    "\(readOnly.value) is below refuse_writes (\(refuseWrites.value)); what peers bring is refused last")
            }
        }
    }
}
