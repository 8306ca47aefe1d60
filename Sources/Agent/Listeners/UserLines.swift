import Digests

/// The lines of a users file, as the plugin `password-file` reads it: `NAME:HASH`, or `NAME:HASH:OPTIONS` (``UserOptions``). Other lines, the
/// order and the line endings are preserved.
package struct UserLines {
    /// A user, or a line that was probably meant to be one.
    package struct User {
        /// Counted from 1.
        package var line: Int
        package var name: String
        package var options = UserOptions()
        /// Why nobody can log in with this line.
        package var problem: String?
    }

    /// Each with its line break, which the last one may lack.
    private var lines: [[UInt8]] = []

    package init(_ bytes: [UInt8]) {
        // A byte order mark, which some editors put at the start; it is not part of the first name.
        var rest = bytes.starts(with: [0xEF, 0xBB, 0xBF]) ? bytes[3...] : bytes[...]
        while !rest.isEmpty {
            let line = rest.prefix(through: rest.firstIndex(of: 0x0A) ?? rest.endIndex - 1)
            lines.append(Array(line))
            rest = rest[line.endIndex...]
        }
    }

    package var bytes: [UInt8] { lines.flatMap(\.self) }

    // MARK: - Reading

    /// A line without its line break and trailing blanks.
    private static func content(_ line: [UInt8]) -> ArraySlice<UInt8> {
        let text = line.prefix { $0 != 0x0A && $0 != 0x0D }
        guard let last = text.lastIndex(where: { $0 != 0x20 && $0 != 0x09 }) else { return [] }
        return text[...last]
    }

    /// The name, hash and options in a line; nil for a line that is not a user's.
    private static func parts(_ line: [UInt8]) -> (name: ArraySlice<UInt8>, hash: ArraySlice<UInt8>, option: ArraySlice<UInt8>?)? {
        let content = content(line)
        guard let colon = content.firstIndex(of: UInt8(ascii: ":")), content.first != UInt8(ascii: "#") else { return nil }
        let rest = content[(colon + 1)...]
        guard let next = rest.firstIndex(of: UInt8(ascii: ":")) else { return (content[..<colon], rest, nil) }
        return (content[..<colon], rest[..<next], rest[(next + 1)...])
    }

    /// All users, including lines that were probably meant to be users.
    package var users: [User] {
        var seen: [String: Int] = [:]
        var users: [User] = []
        for (index, line) in lines.enumerated() {
            let content = Self.content(line)
            guard !content.isEmpty, content.first != UInt8(ascii: "#") else { continue }
            var user = User(line: index + 1, name: "")
            if let (name, hash, option) = Self.parts(line) {
                user.name = String(decoding: name, as: UTF8.self)
                switch Self.read(user.name, String(decoding: hash, as: UTF8.self), option.map { String(decoding: $0, as: UTF8.self) } ?? "") {
                case .success(let read): user.options = read
                case .failure(let flaw): user.problem = flaw.reason
                }
                // The first line for a name counts, whatever it says.
                if let first = seen[user.name] { user.problem = "line \(first) has the same name, and is the one that counts" } else { seen[user.name] = index + 1 }
            } else {
                user.problem = "expected NAME:HASH"
            }
            users.append(user)
        }
        return users
    }

    /// The lines that count: the first one for each name, without trailing blanks.
    var counting: [(name: ArraySlice<UInt8>, line: ArraySlice<UInt8>)] {
        var seen: Set<ArraySlice<UInt8>> = []
        return lines.compactMap { line in
            guard let (name, _, _) = Self.parts(line), seen.insert(name).inserted else { return nil }
            return (name, Self.content(line))
        }
    }

    /// What the authenticator would reject.
    private struct Flaw: Error {
        var reason: String
    }

    private static func read(_ name: String, _ hash: String, _ options: String) -> Result<UserOptions, Flaw> {
        if let problem = problem(ofName: name) { return .failure(Flaw(reason: problem)) }
        let read: UserOptions
        do throws(UserOptions.Problem) { read = try UserOptions(parsing: options) } catch {
            return .failure(Flaw(reason: words(error, name, hash)))
        }
        do { try PasswordHash.validate(hash) } catch { return .failure(Flaw(reason: "\(error)")) }
        return .success(read)
    }

    /// With the column, counted from 1 in characters.
    private static func words(_ problem: UserOptions.Problem, _ name: String, _ hash: String) -> String {
        "column \(name.unicodeScalars.count + hash.unicodeScalars.count + 3 + problem.offset): \(problem.reason)"
    }

    /// Why nobody could log in under a name; nil for a valid name.
    package static func problem(ofName name: String) -> String? {
        if name.isEmpty { return "a user needs a name" }
        if name.utf8.contains(where: { $0 < 0x20 || $0 == 0x7F || $0 == UInt8(ascii: ":") || $0 == UInt8(ascii: "#") }) {
            return "a user's name has no colon, no # and no control characters"
        }
        return nil
    }

    private func index(of name: String) -> Int? {
        lines.firstIndex { Self.parts($0)?.name.elementsEqual(name.utf8) == true }
    }

    package func has(_ name: String) -> Bool { index(of: name) != nil }

    // MARK: - Changing

    /// - Throws: ``AgentError`` if the name already exists.
    package mutating func add(_ name: String, hash: String, _ options: UserOptions) throws {
        if let index = index(of: name) {
            throw AgentError(.conflict, "there is a user \"\(name)\" already, in line \(index + 1); nightjar user passwd changes the password")
        }
        let usesCRLF = lines.first?.suffix(2).elementsEqual([0x0D, 0x0A]) == true
        let end: [UInt8] = usesCRLF ? [0x0D, 0x0A] : [0x0A]
        if let last = lines.indices.last, lines[last].last != 0x0A { lines[last] += end }
        lines.append(Self.line(name, hash, options.text) + end)
    }

    /// Removes every line for the name: if only the first were removed, the next one would count.
    ///
    /// - Throws: ``AgentError`` if there is none.
    package mutating func remove(_ name: String) throws {
        guard has(name) else { throw Self.nobody(name) }
        lines.removeAll { Self.parts($0)?.name.elementsEqual(name.utf8) == true }
    }

    /// Replaces the hash in the line that counts, and keeps the user's options.
    ///
    /// - Throws: ``AgentError`` if there is none, or if its options cannot be read.
    package mutating func change(_ name: String, hash: String) throws {
        guard let index = index(of: name), let (_, old, option) = Self.parts(lines[index]) else { throw Self.nobody(name) }
        let text = option.map { String(decoding: $0, as: UTF8.self) } ?? ""
        do throws(UserOptions.Problem) { _ = try UserOptions(parsing: text) } catch {
            throw AgentError(.invalid, "line \(index + 1), user \(name): \(Self.words(error, name, String(decoding: old, as: UTF8.self))): fix it first")
        }
        replace(index, Self.line(name, hash, text))
    }

    /// Replaces the options in the line that counts, and keeps its hash.
    ///
    /// - Throws: ``AgentError`` if there is none.
    package mutating func permit(_ name: String, _ options: UserOptions) throws {
        guard let index = index(of: name), let (_, hash, _) = Self.parts(lines[index]) else { throw Self.nobody(name) }
        replace(index, Self.line(name, String(decoding: hash, as: UTF8.self), options.text))
    }

    private static func line(_ name: String, _ hash: String, _ options: String) -> [UInt8] {
        Array("\(name):\(hash)\(options.isEmpty ? "" : ":\(options)")".utf8)
    }

    /// Keeps the line's end.
    private mutating func replace(_ index: Int, _ line: [UInt8]) {
        lines[index] = line + lines[index].suffix(while: { $0 == 0x0A || $0 == 0x0D })
    }

    package static func nobody(_ name: String) -> AgentError { AgentError(.notFound, "there is no user \"\(name)\"") }
}

extension Array<UInt8> {
    fileprivate func suffix(while predicate: (UInt8) -> Bool) -> ArraySlice<UInt8> {
        self[(lastIndex { !predicate($0) }.map { $0 + 1 } ?? startIndex)...]
    }
}
