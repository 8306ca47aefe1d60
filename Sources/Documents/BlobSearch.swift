/// Searches for blobs in text that `JSONWalker` accepted in the same call. Only the members that describe a blob are parsed into values: parsing a
/// body of several megabytes takes many times its size.
struct BlobSearch {
    /// The describing members of a blob, by their position in the text. Of equal keys the last counts.
    private struct Description {
        private static let keys = ["@type", "digest", "length", "content_type", "encoding"]
        private var values: (JSONValue?, JSONValue?, JSONValue?, JSONValue?, JSONValue?) = (Optional.none, Optional.none, Optional.none, Optional.none, Optional.none)

        static func index(_ key: UnsafeBufferPointer<UInt8>, isEscaped: Bool) -> Int? {
            if isEscaped { return keys.firstIndex { $0.utf8.elementsEqual(ObjectKey.plain(key)) } }
            // The shortest and longest length of these keys: most other keys need no further comparison.
            guard key.count >= 5, key.count <= 12 else { return nil }
            return keys.firstIndex { $0.utf8.elementsEqual(key) }
        }

        subscript(index: Int) -> JSONValue? {
            get {
                switch index {
                case 0: values.0
                case 1: values.1
                case 2: values.2
                case 3: values.3
                default: values.4
                }
            }
            set {
                switch index {
                case 0: values.0 = newValue
                case 1: values.1 = newValue
                case 2: values.2 = newValue
                case 3: values.3 = newValue
                default: values.4 = newValue
                }
            }
        }

        var isBlob: Bool { values.0?.asString == "blob" }

        var reference: BlobReference? {
            guard let text = values.1?.asString, let digest = try? BlobDigest(text) else { return nil }
            return BlobReference(digest, length: values.2, contentType: values.3, encoding: values.4)
        }
    }

    private var at: UnsafePointer<UInt8>
    private let end: UnsafePointer<UInt8>
    private var inline: [BlobReference] = []
    private var attached: [BlobReference] = []

    /// Inline blobs in order of their start, then the entries of a top-level `_attachments`; each digest once.
    static func references(in bytes: UnsafeRawBufferPointer) -> [BlobReference] {
        guard let base = bytes.assumingMemoryBound(to: UInt8.self).baseAddress else { return [] }
        var search = BlobSearch(at: base, end: base + bytes.count)
        search.skipSpace()
        if search.at.pointee == 0x7B { search.object(isRoot: true) } else { search.skipValue() }
        // Modified in place: a document may name thousands.
        var found = search.inline
        search.inline = []
        found += search.attached
        search.attached = []
        var seen = Set<BlobDigest>(minimumCapacity: found.count)
        var others: [BlobReference] = []
        found.removeAll {
            if seen.insert($0.digest).inserted { return false }
            others.append($0)
            return true
        }
        guard !others.isEmpty else { return found }
        let places = Dictionary(uniqueKeysWithValues: found.enumerated().map { ($1.digest, $0) })
        for other in others { if let place = places[other.digest] { found[place].add(other) } }
        return found
    }

    private init(at: UnsafePointer<UInt8>, end: UnsafePointer<UInt8>) { (self.at, self.end) = (at, end) }

    // MARK: Containers

    private mutating func value() {
        switch at.pointee {
        case 0x7B: object(isRoot: false)
        case 0x5B: array()
        default: skipValue()
        }
    }

    private mutating func array() {
        at += 1
        skipSpace()
        while at < end, at.pointee != 0x5D {
            value()
            skipComma()
        }
        at += 1
    }

    private mutating func object(isRoot: Bool) {
        // A blob is recognised at its end, but comes before those inside it.
        let place = inline.count
        var description = Description()
        members { search, key, isEscaped in
            if isRoot, Self.isAttachments(key, isEscaped) { return search.attachments() }
            if let index = Description.index(key, isEscaped: isEscaped) { description[index] = search.scalar() } else { search.value() }
        }
        if !isRoot, description.isBlob, let reference = description.reference { inline.insert(reference, at: place) }
    }

    private mutating func attachments() {
        attached = []
        guard at.pointee == 0x7B else { return skipValue() }
        members { search, _, _ in
            guard search.at.pointee == 0x7B else { return search.skipValue() }
            var description = Description()
            search.members { search, key, isEscaped in
                if let index = Description.index(key, isEscaped: isEscaped) {
                    description[index] = search.at.pointee == 0x7B || search.at.pointee == 0x5B ? nothing(search.skipValue()) : search.scalar()
                } else {
                    search.skipValue()
                }
            }
            if let reference = description.reference { search.attached.append(reference) }
        }
    }

    private static func isAttachments(_ key: UnsafeBufferPointer<UInt8>, _ isEscaped: Bool) -> Bool {
        isEscaped ? ObjectKey.plain(key).elementsEqual("_attachments".utf8) : key.elementsEqual("_attachments".utf8)
    }

    /// Calls `member` at the start of each value; `member` must move past the value.
    private mutating func members(_ member: (inout BlobSearch, UnsafeBufferPointer<UInt8>, Bool) -> Void) {
        at += 1
        skipSpace()
        while at < end, at.pointee == 0x22 {
            let first = at + 1
            let isEscaped = JSONText.skipCheckedString(&at, end, flagDelete: false)
            let key = UnsafeBufferPointer(start: first, count: at - 1 - first)
            skipSpace()
            at += 1  // the colon
            skipSpace()
            member(&self, key, isEscaped)
            skipComma()
        }
        at += 1
    }

    // MARK: Values

    /// A value that is part of a description. A container describes nothing, but may contain blobs.
    private mutating func scalar() -> JSONValue? {
        guard at.pointee != 0x7B, at.pointee != 0x5B else { return nothing(value()) }
        let first = at
        skipValue()
        return JSONReader.read(UnsafeRawBufferPointer(start: first, count: at - first))
    }

    /// Moves past a value of any kind.
    private mutating func skipValue() {
        var depth = 0
        repeat {
            skipSpace()
            switch at.pointee {
            case 0x22: _ = JSONText.skipCheckedString(&at, end, flagDelete: false)
            case 0x7B, 0x5B:
                depth += 1
                at += 1
            case 0x7D, 0x5D:
                depth -= 1
                at += 1
            case 0x2C, 0x3A: at += 1
            default: skipWord()
            }
        } while depth > 0 && at < end
    }

    private mutating func skipWord() {
        let first = at
        JSONText.skipCheckedScalar(&at, end)
        // Always makes progress, whatever the text.
        if at == first { at += 1 }
    }

    private mutating func skipSpace() { while at < end, at.pointee <= 0x20 { at += 1 } }

    private mutating func skipComma() {
        skipSpace()
        if at < end, at.pointee == 0x2C {
            at += 1
            skipSpace()
        }
    }
}

private func nothing(_: Void) -> JSONValue? { Optional.none }
