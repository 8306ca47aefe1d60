/// One edit in a version vector: its author, and when it was made by the author's clock (replication.md section 7).
public struct VectorVersion: Hashable, Comparable, Sendable, CustomStringConvertible {
    /// Nanoseconds of a hybrid logical clock: it increases with each version of its source, whatever the machine's clock does. From 1 to
    /// ``largestTime``; peers accept only times in ``times``.
    public let time: UInt64
    public let source: SourceID

    /// The greatest time that is accepted: a source must be able to continue after it.
    public static let largestTime = UInt64.max - (1 << 32)

    /// The range that Couchbase Lite 4 accepts (`HybridClock`): from 18 minutes after the beginning of 1970 to the year 2262.
    public static let times: ClosedRange<UInt64> = (1 << 40)...(1 << 63 - 1)

    public init(time: UInt64, source: SourceID) { (self.time, self.source) = (time, source) }

    /// The version that stands for a tree revision in comparisons: its generation, then the first 40 bits of its digest.
    public init(standingFor revision: RevisionID) {
        var bits: UInt64 = 0
        for digit in revision.digest.utf8.prefix(10) { bits = bits << 4 | UInt64(digit < 0x40 ? digit - 0x30 : digit - 0x57) }
        for _ in revision.digest.utf8.count..<max(10, revision.digest.utf8.count) { bits <<= 4 }
        self.init(time: min(revision.generation, 1 << 23) << 40 | bits, source: .revisionTree)
    }

    /// Parses `TIME@SOURCE`: a hexadecimal time without leading zeros, and 22 characters of base64.
    public init(_ text: some StringProtocol) throws(VersionError) {
        var text = String(text)
        self = try text.withUTF8 { bytes in Result { () throws(VersionError) in try VectorVersion(utf8: bytes[...]) } }.get()
    }

    /// The same from the text's bytes.
    init(utf8 text: Slice<UnsafeBufferPointer<UInt8>>) throws(VersionError) {
        guard let sign = text.prefix(17).firstIndex(of: UInt8(ascii: "@")), sign > text.startIndex, text[text.startIndex] != UInt8(ascii: "0"),
            let source = SourceID(utf8: text[(sign + 1)...])
        else { throw .malformed(value: quoted(text)) }
        var time: UInt64 = 0
        for digit in text[..<sign] {
            switch digit {
            case UInt8(ascii: "0")...UInt8(ascii: "9"): time = time << 4 | UInt64(digit - 0x30)
            case UInt8(ascii: "a")...UInt8(ascii: "f"): time = time << 4 | UInt64(digit - 0x57)
            default: throw .malformed(value: quoted(text))
            }
        }
        guard time <= Self.largestTime else { throw .timeTooLate(value: quoted(text)) }
        self.init(time: time, source: source)
    }

    /// Whether it is that version, or a later one of the same author. Versions that stand for tree revisions have no real author, so one does not
    /// cover another.
    func covers(_ other: VectorVersion) -> Bool {
        source == other.source && (source == .revisionTree ? time == other.time : time >= other.time)
    }

    /// Whether it is the version that stands for this tree revision.
    func stands(for revision: RevisionID) -> Bool {
        source == .revisionTree && revision.kind == .tree && VectorVersion(standingFor: revision) == self
    }

    /// Whether it is a later version of the same author.
    public func isLater(than other: VectorVersion) -> Bool { source == other.source && source != .revisionTree && time > other.time }

    public var description: String {
        let digits = max(1, (67 - time.leadingZeroBitCount) / 4)
        return String(unsafeUninitializedCapacity: digits + 1 + SourceID.textBytes) { out in
            for place in 0..<digits {
                let digit = UInt8(truncatingIfNeeded: time >> (4 * UInt64(digits - 1 - place))) & 15
                out[place] = digit < 10 ? 0x30 + digit : 0x57 + digit
            }
            out[digits] = UInt8(ascii: "@")
            source.write(to: UnsafeMutableBufferPointer(rebasing: out[(digits + 1)...]))
            return digits + 1 + SourceID.textBytes
        }
    }

    /// By time, then by source: everybody agrees which of two is the later one.
    public static func < (a: VectorVersion, b: VectorVersion) -> Bool {
        a.time != b.time ? a.time < b.time : a.source < b.source
    }
}

/// Why a version or a version vector is refused. `value` is its text, escaped and shortened for a log line.
public enum VersionError: Error, Equatable, Sendable, CustomStringConvertible {
    case malformed(value: String)
    case timeTooLate(value: String)
    /// No peer accepts it: its author's clock is wrong, or has not been set.
    case timeImpossible(value: String)
    /// Couchbase Lite 4 reserves the source of all zeros for itself.
    case sourceReserved(value: String)
    case tooManyVersions(limit: Int)
    case badRevision(RevisionIDError)
    /// A vector that contains a later version of its own author cannot be the vector of that revision.
    case contradictory(value: String)
    /// Tree revisions must follow all versions.
    case versionBehindRevision(value: String)

    public var description: String {
        switch self {
        case .malformed(let value):
            "\(value) is not a version: a version is a hexadecimal time without leading zeros, \"@\", and \(SourceID.textBytes) characters of base64"
        case .timeTooLate(let value): "the time of the version \(value) is above \(String(VectorVersion.largestTime, radix: 16))"
        case .timeImpossible(let value):
            "the time of the version \(value) is not one that peers accept: it is outside the range \(String(VectorVersion.times.lowerBound, radix: 16)) to \(String(VectorVersion.times.upperBound, radix: 16)) (set the clock of the machine that made it)"
        case .sourceReserved(let value): "the source of the version \(value) is zero, which peers take for their own"
        case .tooManyVersions(let limit): "a version vector has more versions than vectorVersions = \(limit)"
        case .badRevision(let error): "\(error)"
        case .contradictory(let value): "the version vector of \(value) has a later version of the same source"
        case .versionBehindRevision(let value): "the history has the version \(value) behind a revision of a tree"
        }
    }
}
