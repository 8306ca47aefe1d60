/// What one pass over a document's body found.
public struct DocumentScan: Sendable, Equatable {
    /// The text is its own canonical form (see `CanonicalJSON`). False may mean "not sure": a key with an
    /// escape is never called canonical.
    public var isCanonical: Bool
    /// A key `@type` or a top-level `_attachments` was seen, or a key with an escape, which may be one of them.
    public var mayHoldBlobs: Bool
    /// A top-level key begins with `_`.
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

/// Checks JSON text strictly: RFC 8259; UTF-8; whole surrogate pairs; nesting to `JSONLimits.depth`; numbers that a double can hold; no key
/// twice in one object.
///
/// This is the door of every way in. What is stored already is read by the first rules only: an older version may have let more levels, larger
/// numbers and equal keys pass, of which the last counts.
public enum JSONScanner {
    /// Checks a document's body: one object and nothing else but white space.
    /// - Parameter unusualKeys: empty keys and keys with NUL are let in. Couchbase Lite cannot store them.
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

    /// The scan the caller has, or else one of a body that is stored.
    static func scanDocument(stored bytes: [UInt8], known: DocumentScan?) throws(JSONError) -> DocumentScan {
        if let known { return known }
        return try bytes.withRawBytes { (raw) throws(JSONError) in try scan(raw, keysMayRepeat: true) }
    }

    /// Checks any one JSON value.
    ///
    /// - Returns: whether there is a key in it, however deep, that may be `@type`: without one no object in it is a blob.
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
