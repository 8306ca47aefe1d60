import Encodings
import Glibc

/// Expands `${ENV}`, `${file:PATH}` and `${credential:NAME}` in all values (not in keys). `$${` stands for `${`. The result is not expanded again.
struct Expansion {
    /// nil for the process's environment.
    let environment: [String: String]?
    let folder: String
    private var total = 0

    init(environment: [String: String]?, folder: String) {
        self.environment = environment
        self.folder = folder
    }

    /// Keys whose values, including all values below them, are secrets. A `${` in a literal password is part of the password, which must not be
    /// quoted in a problem.
    private static let secretKeys: Set<String> = ["password", "token", "bearer", "session", "passphrase", "headers"]

    mutating func expand(_ node: inout ConfigurationNode, _ problems: inout ProblemList) { expand(&node, isSecret: false, &problems) }

    private mutating func expand(_ node: inout ConfigurationNode, isSecret: Bool, _ problems: inout ProblemList) {
        switch node.content {
        case .scalar(var scalar):
            guard scalar.text.utf8.contains(UInt8(ascii: "$")) else { return }
            expand(&scalar, at: node.position, isSecret: isSecret, &problems)
            node.content = .scalar(scalar)
        case .sequence(var elements):
            for index in elements.indices { expand(&elements[index], isSecret: isSecret, &problems) }
            node.content = .sequence(elements)
        case .mapping(var entries):
            for index in entries.indices {
                expand(&entries[index].value, isSecret: isSecret || Self.secretKeys.contains(entries[index].key), &problems)
            }
            node.content = .mapping(entries)
        }
    }

    private mutating func expand(
        _ scalar: inout ConfigurationNode.Scalar, at position: SourcePosition, isSecret: Bool, _ problems: inout ProblemList
    ) {
        let source = Array(scalar.text.utf8)
        var result: [UInt8] = []
        var brought = false
        var index = 0
        // After exceeding the total size, which has been reported, no further files are opened.
        if total > Limits.totalExpansionBytes, scalar.text.holds("${") {
            scalar.isUnresolved = true
            return
        }
        while index < source.count {
            let rest = source[index...]
            guard source[index] == UInt8(ascii: "$") else {
                result.append(source[index])
                index += 1
                continue
            }
            if rest.starts(with: "$${".utf8) {
                result += "${".utf8
                index += 3
                continue
            }
            guard rest.starts(with: "${".utf8) else {
                result.append(source[index])
                index += 1
                continue
            }
            guard let end = rest.firstIndex(of: UInt8(ascii: "}")) else {
                problems.report(at: position, "\"${\" without \"}\"; write $${ for a literal ${")
                scalar.isUnresolved = true
                return
            }
            let name = String(decoding: source[(index + 2)..<end], as: UTF8.self)
            brought = true
            switch value(of: name) {
            case .success(let bytes):
                total += bytes.count
                guard total <= Limits.totalExpansionBytes else {
                    problems.report(at: position, "all expansions together bring in more than \(Limits.totalExpansionBytes) bytes")
                    scalar.isUnresolved = true
                    return
                }
                problems.noteExpansion(String(decoding: bytes, as: UTF8.self), of: "${\(name)}")
                result += bytes
            case .failure(let failure):
                // A value that consists only of a reference was meant as one, and may be quoted if it is well-formed.
                let isReference = index == 0 && end == source.count - 1 && !failure.isMalformed
                problems.report(
                    at: position, isOfEnvironment: failure.isOfEnvironment,
                    isSecret && !isReference
                        ? "a ${…} in this secret cannot be expanded; write $${ for a literal ${, or the whole secret as ${VARIABLE}, "
                            + "${file:PATH} or ${credential:NAME}"
                        : failure.message)
                scalar.isUnresolved = true
            }
            index = end + 1
        }
        if scalar.isUnresolved { return }
        if brought { scalar.source = scalar.text }
        scalar.text = String(decoding: result, as: UTF8.self)
        if let source = scalar.source { problems.noteExpansion(scalar.text, of: source) }
    }

    private struct Failure: Error {
        var message: String
        /// It does not have the form of a reference.
        var isMalformed = false
        /// This process's environment lacks it.
        var isOfEnvironment = false
    }

    private func value(of name: String) -> Result<[UInt8], Failure> {
        if name.hasPrefix("file:") { return content(of: String(name.dropFirst(5)), name) }
        if name.hasPrefix("credential:") { return credential(String(name.dropFirst(11)), name) }
        let shown = ValueQuoting.quoted("${\(name)}")
        guard Bytes.matches(name, first: { Bytes.isAlphanumeric($0) && !Bytes.isDigit($0) || $0 == UInt8(ascii: "_") },
            rest: { Bytes.isAlphanumeric($0) || $0 == UInt8(ascii: "_") }, 1...256)
        else {
            return .failure(Failure(message: "\(shown) is neither ${VARIABLE} nor ${file:PATH} nor ${credential:NAME}; write $${ for a literal ${", isMalformed: true))
        }
        let value = variable(name)
        guard let value else { return .failure(Failure(message: "the environment variable \(name) is not set", isOfEnvironment: true)) }
        guard value.count <= Limits.expansionBytes else {
            return .failure(Failure(message: "the environment variable \(name) is larger than \(Limits.expansionBytes) bytes"))
        }
        return checked(value, shown)
    }

    private func variable(_ name: String) -> [UInt8]? {
        if let environment { return environment[name].map { Array($0.utf8) } }
        return getenv(name).map { Array(UnsafeBufferPointer(start: $0, count: strlen($0))).map { UInt8(bitPattern: $0) } }
    }

    /// A credential that systemd provides to the unit (`LoadCredential=`, `SetCredentialEncrypted=`): a file in the folder named by
    /// `CREDENTIALS_DIRECTORY`.
    private func credential(_ credential: String, _ name: String) -> Result<[UInt8], Failure> {
        let shown = ValueQuoting.quoted("${\(name)}")
        // systemd's rules for credential names: a file name, so that nothing outside of that folder can be read.
        guard (1...255).contains(credential.utf8.count), credential != ".", credential != "..",
            credential.utf8.allSatisfy({ (0x21...0x7E).contains($0) && $0 != UInt8(ascii: "/") && $0 != UInt8(ascii: ":") })
        else {
            return .failure(Failure(message: "\(shown) names no credential: a name has up to 255 characters, without \"/\", \":\" and spaces"))
        }
        guard let folder = variable("CREDENTIALS_DIRECTORY").map({ String(decoding: $0, as: UTF8.self) }), folder.hasPrefix("/") else {
            return .failure(
                Failure(
                    message: "\(shown): systemd gave no credentials (CREDENTIALS_DIRECTORY is not set); "
                        + "add LoadCredential=\(credential):PATH to the unit, if it is not there", isOfEnvironment: true))
        }
        return content(of: Paths.resolve(credential, in: folder), name)
    }

    private func content(of path: String, _ name: String) -> Result<[UInt8], Failure> {
        let shown = ValueQuoting.quoted("${\(name)}")
        guard !path.isEmpty, !path.utf8.contains(0) else { return .failure(Failure(message: "\(shown) names no file")) }
        let resolved = Paths.resolve(path, in: folder)
        do {
            var bytes = try SmallFile.read(resolved, limit: Limits.expansionBytes, regularOnly: true)
            if bytes.last == UInt8(ascii: "\n") {
                bytes.removeLast()
                if bytes.last == UInt8(ascii: "\r") { bytes.removeLast() }
            }
            return checked(bytes, shown)
        } catch {
            let place = resolved == path && name.hasPrefix("file:") ? "" : " (\(resolved))"
            return .failure(Failure(message: "\(shown)\(place) cannot be read: \(error.text(limit: Limits.expansionBytes)); \(Self.advice(error, path, name))"))
        }
    }

    /// What to do about a file that cannot be read.
    private static func advice(_ error: SmallFile.Failure, _ path: String, _ name: String) -> String {
        guard name.hasPrefix("file:") else { return "correct the unit's LoadCredential= or the credential's name, and restart the agent's service" }
        switch error {
        case .system(ENOENT), .system(ENOTDIR):
            return "create the file, or correct the path" + (path.hasPrefix("/") ? "" : ", which counts from the configuration's folder")
        case .system(EACCES), .system(EPERM): return "let this user read it (chown, chmod 600; its folders need x)"
        case .system: return "look at that file and its disk"
        case .notRegular, .tooLarge, .silent: return "name a regular file of at most \(Limits.expansionBytes) bytes"
        }
    }

    /// The files that a text names as `${file:PATH}`.
    static func files(in text: String, folder: String) -> [String] {
        var files: [String] = []
        var rest = Array(text.utf8)[...]
        while let start = rest.firstIndex(of: UInt8(ascii: "$")) {
            rest = rest[start...]
            guard !rest.starts(with: "$${".utf8) else {
                rest = rest.dropFirst(3)
                continue
            }
            guard rest.starts(with: "${".utf8) else {
                rest = rest.dropFirst()
                continue
            }
            guard let end = rest.firstIndex(of: UInt8(ascii: "}")) else { break }
            let name = String(decoding: rest[..<end].dropFirst(2), as: UTF8.self)
            if name.hasPrefix("file:"), name.utf8.count > 5 { files.append(Paths.resolve(String(name.dropFirst(5)), in: folder)) }
            rest = rest[end...].dropFirst()
        }
        return files
    }

    private func checked(_ bytes: [UInt8], _ shown: String) -> Result<[UInt8], Failure> {
        guard String(validating: bytes, as: UTF8.self) != nil else { return .failure(Failure(message: "\(shown) is not UTF-8 text")) }
        return .success(bytes)
    }
}
