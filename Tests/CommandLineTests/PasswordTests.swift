import Digests
import TestSupport
import Testing

@Suite struct PasswordTests {
    @Test func aPipeGivesOneHash() async throws {
        let outcome = try await NightjarExecutable.run("password", input: .text("s3cret\nsecond line\n"))
        #expect(outcome.status == 0, "\(outcome)")
        let hash = String(outcome.output.dropLast())
        #expect(try PasswordHash.verify(password: "s3cret", hash: hash))
    }

    @Test func nothingIsRefused() async throws {
        let outcome = try await NightjarExecutable.run("password")
        #expect(outcome.status == 1)
        #expect(outcome.errors.contains("the password is empty"))
    }

    @Test func theTerminalAsksTwiceAndShowsNothing() async throws {
        let process = try Subprocess(try NightjarExecutable.path(), ["password"], input: .terminal)
        // The prompt goes to the terminal itself, which nobody reads here; what is typed before it is dropped, so it is typed
        // until the program has taken it.
        let outcome = try await eventually("a hash is printed") { () -> Subprocess.Outcome? in
            process.write("s3cret\n")
            return process.isRunning ? nil : try await process.wait()
        }
        #expect(outcome.status == 0, "\(outcome)")
        #expect(try PasswordHash.verify(password: "s3cret", hash: String(outcome.output.dropLast())))
        #expect(!outcome.output.contains("s3cret"))
    }
}
