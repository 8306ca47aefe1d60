import AgentConfiguration
import Encodings
import Environment
import Glibc
import TLS

/// The token for an admin port whose configuration names none: made at the first start, stored in the data folder, readable by the agent's user only.
package enum AdminTokenFile {
    static func path(data: String) -> String { "\(data)/admin.token" }

    /// Reports a token that the agent made and that is no longer accepted because the configuration names others; nil if there is none, or it is in
    /// use.
    static func unused(_ settings: AgentSettings) -> ConfigurationProblem? {
        guard let admin = settings.admin, !admin.hasNoToken, settings.knowsDataFolder else { return nil }
        let path = path(data: settings.data.value)
        guard access(path, F_OK) == 0 else { return nil }
        return ConfigurationProblem(
            at: admin.position,
            "admin: DATA/admin.token (\(path)) is not used, because tokens are named here: holders of that one need one of these; remove the file")
    }

    /// The token from the file, which is created if it is missing.
    ///
    /// - Throws: `AgentError` `.configuration` for a file that other users can read, or that contains no token.
    static func secret(data: String, _ random: any RandomSource) throws(AgentError) -> Secret {
        let path = path(data: data)
        var stored: SecretBytes?
        do throws(TLSFileError) { stored = try SecretFile.read(path) } catch {
            guard error.kind == .missing else { throw AgentError(.configuration, "the token of the admin port: \(error)") }
            var facts = stat()
            if lstat(path, &facts) == 0 {
                throw AgentError(
                    .configuration,
                    "the token of the admin port: \(path) is a symbolic link to a file that is not there: put that file in its place, or remove the "
                        + "link, and the agent makes a token")
            }
        }
        if let stored { return try secret(in: stored, path) }
        let token = Hex.encode(random.bytes(32))
        do throws(TLSFileError) { try SecretFile.write(path, SecretBytes(token + "\n"), replaces: false) } catch {
            throw AgentError(.failed, "the token of the admin port: \(error)")
        }
        return Secret(token)
    }

    /// Why the agent could not use the existing file; nil if it could, or would create one.
    package static func problem(data: String, _ random: any RandomSource) -> AgentError? {
        var facts = stat()
        // An existing file is never replaced.
        guard lstat(path(data: data), &facts) == 0 else { return nil }
        do throws(AgentError) { _ = try secret(data: data, random) } catch { return error }
        return nil
    }

    private static func secret(in bytes: SecretBytes, _ path: String) throws(AgentError) -> Secret {
        let token = Self.trimmed(bytes)
        guard !token.contains(where: \.isNewline) else {
            throw AgentError(.configuration, "\(path): has several lines, and a token is one: leave the token alone in it, or remove the file, and the agent makes another")
        }
        guard token.utf8.count >= 16, token.utf8.allSatisfy({ 0x21...0x7E ~= $0 }) else {
            throw AgentError(
                .configuration,
                "\(path): holds no token of 16 printable characters or more: remove the file, and the agent makes another, or set admin.token")
        }
        return Secret(String(token))
    }

    /// The token that the agent made; nil if there is none, or this user may not read it.
    package static func made(data: String) -> Secret? {
        guard let stored = try? SecretFile.read(path(data: data)) else { return nil }
        return try? secret(in: stored, path(data: data))
    }

    /// Without leading and trailing white space.
    private static func trimmed(_ bytes: SecretBytes) -> Substring {
        let text = bytes.withBytes { String(decoding: $0, as: UTF8.self) }
        let start = text.drop(while: \.isWhitespace)
        return start.lastIndex { !$0.isWhitespace }.map { start[...$0] } ?? ""
    }
}
