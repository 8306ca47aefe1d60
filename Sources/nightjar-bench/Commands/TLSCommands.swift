import ArgumentParser

struct PushTLSCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "push-tls", abstract: "The push over TLS, against the same push in clear text.")

    @OptionGroup var common: CommonOptions
    @Option var documents = 100_000
    @Option var rounds = 5
    @Option(help: "2: a process for each side; 1: both in one.") var processes = 2

    func run() async throws {
        try await common.report { try await PushTLSScenario(documents: documents, rounds: rounds, processes: processes).run($0) }
    }
}

struct HandshakesCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "handshakes", abstract: "TLS 1.3 handshakes one after the other, against openssl s_time towards openssl s_server.")

    @OptionGroup var common: CommonOptions
    @Option(help: "Of each measurement.") var seconds = 3
    @Option var rounds = 5
    @Option(help: "The openssl tool.") var openssl = HandshakesScenario.openSSLPath

    func run() async throws {
        try await common.report { try await HandshakesScenario(seconds: seconds, rounds: rounds, openssl: openssl).run($0) }
    }
}

struct TLSMemoryCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "tls-memory", abstract: "What a listener holds for an idle connection over TLS, and in clear text.")

    @OptionGroup var common: CommonOptions
    @Option var connections = 1_000
    @Option var rounds = 3

    func run() async throws {
        try await common.report { try await TLSMemoryScenario(connections: connections, rounds: rounds).run($0) }
    }
}
