/// The results of one pass over a document's body.
public struct DocumentScan: Sendable, Equatable {
    /// The text is in canonical form (see `CanonicalJSON`). False may mean "not sure": a key with an escape is never considered canonical.
    public var isCanonical: Bool
    /// There is a key `@type`, a top-level `_attachments`, or a key with an escape, which may be one of them.
    public var mayHoldBlobs: Bool
    /// A top-level key starts with `_`.
    public var hasReservedKeys: Bool
    /// The object has no members.
    public var isEmpty: Bool

    public init(isCanonical: Bool, mayHoldBlobs: Bool, hasReservedKeys: Bool, isEmpty: Bool) {
        self.isCanonical = isCanonical
        self.mayHoldBlobs = mayHoldBlobs
        self.hasReservedKeys = hasReservedKeys
        self.isEmpty = isEmpty
    }
}

/// Checks JSON text strictly: RFC 8259; UTF-8; complete surrogate pairs; nesting up to `JSONLimits.depth`; numbers that fit a double; no key twice in
/// one object.
///
/// All input passes through this check. Stored text is read by the grammar rules only: an older version may have accepted more levels, larger numbers
/// and equal keys, of which the last counts.
public enum JSONScanner {
    /// Checks a document's body: one object and nothing else but white space.
    /// - Parameter unusualKeys: accept empty keys and keys with NUL. Couchbase Lite cannot store them.
    public static func scanDocument(_ bytes: UnsafeRawBufferPointer, unusualKeys: Bool = true) throws(JSONError) -> DocumentScan {
        try scan(bytes, keysMayRepeat: false, unusualKeys: unusualKeys)
    }

    private static func scan(
        _ bytes: UnsafeRawBufferPointer, keysMayRepeat: Bool, unusualKeys: Bool = true
    ) throws(JSONError) -> DocumentScan {
        guard
            let walker = try JSONWalker.walk(
                bytes, rootMustBeObject: true, recording: false, keysMayRepeat: keysMayRepeat, unusualKeys: unusualKeys)
        else {
            throw JSONError(.unexpectedEnd, offset: 0, in: bytes)
        }
        return walker.documentScan
    }

    public static func scanDocument(_ bytes: [UInt8], unusualKeys: Bool = true) throws(JSONError) -> DocumentScan {
        try bytes.withRawBytes { (raw) throws(JSONError) in try scanDocument(raw, unusualKeys: unusualKeys) }
    }

    /// The scan that the caller has, or a scan of a stored body.
    static func scanDocument(stored bytes: [UInt8], known: DocumentScan?) throws(JSONError) -> DocumentScan {
        if let known { return known }
        return try bytes.withRawBytes { (raw) throws(JSONError) in try scan(raw, keysMayRepeat: true) }
    }

    /// Checks any one JSON value.
    ///
    /// - Returns: whether it contains a key, at any depth, that may be `@type`: without one, no object in it is a blob.
    @discardableResult
    public static func checkValue(_ bytes: UnsafeRawBufferPointer) throws(JSONError) -> Bool { try checkValue(bytes, keysMayRepeat: false) }

    @discardableResult
    static func checkValue(_ bytes: UnsafeRawBufferPointer, keysMayRepeat: Bool) throws(JSONError) -> Bool {
        guard let walker = try JSONWalker.walk(bytes, rootMustBeObject: false, recording: false, keysMayRepeat: keysMayRepeat) else {
            throw JSONError(.unexpectedEnd, offset: 0, in: bytes)
        }
        return walker.mayHoldBlobs
    }
}
