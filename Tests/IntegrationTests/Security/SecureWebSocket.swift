import TestSupport

/// A WebSocket over TLS that `openssl s_client` carries, at a listener's database `main`: it takes part in nothing and answers
/// nothing.
struct SecureWebSocket {
    let process: Subprocess

    /// - Parameter arguments: of `s_client`, beside the address.
    init(_ agent: AgentProcess, _ listener: String, headers: [String] = [], arguments: [String] = []) async throws {
        let port = try agent.port(listener)
        process = try Subprocess("/usr/bin/openssl", ["s_client", "-quiet", "-connect", "127.0.0.1:\(port)"] + arguments, input: .open)
        process.write(
            (["GET /main/_blipsync HTTP/1.1", "Host: 127.0.0.1:\(port)", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
                "Sec-WebSocket-Key: AAECAwQFBgcICQoLDA0ODw==", "Sec-WebSocket-Protocol: BLIP_3+CBMobile_3"] + headers + ["", ""]).joined(separator: "\r\n"))
        let process = process
        try await eventually("the upgrade") {
            if !process.isRunning { throw SupportError("s_client ended: \(process.output) \(process.errors)") }
            return process.output.contains("HTTP/1.1 101")
        }
    }

    /// Waits for the end, and gives the code of the CLOSE frame that came last; nil where there was none.
    func closeCode() async throws -> UInt16? {
        let bytes = try await process.wait().outputBytes
        // A CLOSE frame of a server: its opcode, a short length, the code.
        guard let at = bytes.lastIndex(of: 0x88), at + 3 < bytes.count, bytes[at + 1] < 126, at + 2 + Int(bytes[at + 1]) == bytes.count else { return nil }
        return UInt16(bytes[at + 2]) << 8 | UInt16(bytes[at + 3])
    }
}
