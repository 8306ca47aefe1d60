import ArgumentParser
import Agent
@main struct M: AsyncParsableCommand { func run() async throws { print("x") } }
