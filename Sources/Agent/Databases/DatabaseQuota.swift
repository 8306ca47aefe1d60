/// When a database counts as full.
package enum DatabaseQuota {
    /// `quota_margin`: with fewer bytes left than this, or a smaller part of the quota, it counts as reached.
    private static let margin = (bytes: 64 << 10, part: 64)

    /// - Parameter held: bytes that the database holds.
    package static func isReached(_ quota: Int, _ held: Int) -> Bool { held >= quota - min(margin.bytes, quota / margin.part) }
}
