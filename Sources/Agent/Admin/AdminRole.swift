import AgentConfiguration

/// What may be done on the admin API.
typealias AdminRole = AdminTokenSettings.Role

extension AdminTokenSettings.Role {
    /// May everything that the other may.
    func covers(_ other: Self) -> Bool { Self.allCases.firstIndex(of: self) ?? 0 >= Self.allCases.firstIndex(of: other) ?? .max }

    /// What a route needs. It goes by the pattern, and not by how a request writes its path.
    static func needed(_ method: String, _ pattern: String) -> Self {
        let parts = pattern.split(separator: "/")
        if ["GET", "HEAD"].contains(method) { return parts == ["api", "audit"] ? .operate : .read }
        guard parts.count > 1, parts[0] == "api", parts[1] == "databases" else { return .operate }
        return parts.count == 4 && ["check", "compact", "resync"].contains(parts[3]) ? .operate : .edit
    }
}
