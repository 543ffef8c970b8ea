import type { LobbyChange, LobbyView, Occurrence } from "../domain/kernel/events/lobby-views.ts";
import type { LobbyNotice } from "../domain/kernel/events/topics.ts";

/** Maximum number of versions whose occurrences a room remembers as reported. */
const VERSIONS_KEPT_MAX = 500;
/** Delay before a failed read is retried. */
const READ_RETRY_MS = 1_000;

export type LobbyMirrorParts = {
  /** Reads the whole lobby as it is committed. */
  read(): Promise<LobbyView>;
  /** Shows a lobby that is newer than the one shown before. */
  show(lobby: LobbyView): void;
  /** Called once for each occurrence, after its version is shown. */
  onOccurrence(occurrence: Occurrence): void;
  later(delayMs: number, run: () => unknown): void;
  onError(error: unknown): void;
};

/**
 * A room's view of its lobby. Each version may be announced twice, by the room's own commit and by the relay,
 * in any order, or not at all; the shown version never decreases, and each occurrence is reported once.
 */
export class LobbyMirror {
  readonly #parts: LobbyMirrorParts;
  /** Occurrences by version, waiting until that version is shown. */
  readonly #waiting = new Map<number, readonly Occurrence[]>();
  readonly #reported = new Set<number>();
  /** Occurrences up to this version are no longer reported. */
  #silentUpTo = 0;
  #version = 0;
  #expected = 0;
  #isReading = false;

  constructor(parts: LobbyMirrorParts) {
    this.#parts = parts;
  }

  /** The version shown; 0 before the first. */
  get version(): number {
    return this.#version;
  }

  /** Shows the first lobby. Its earlier occurrences are history and not reported. */
  start(lobby: LobbyView): void {
    this.#silentUpTo = lobby.version;
    this.#show(lobby);
    this.expect(this.#expected);
  }

  /** Applies a change that this room has committed. */
  apply({ lobby, occurrences }: LobbyChange): void {
    this.#note(lobby.version, occurrences);
    this.#show(lobby);
  }

  /** Handles a notice of the relay. */
  receive({ version, occurrences }: LobbyNotice): void {
    this.#note(version, occurrences);
    if (version <= this.#version) this.#reportDue();
    else this.expect(version);
  }

  /** Notes that the lobby has reached `version`. */
  expect(version: number): void {
    this.#expected = Math.max(this.#expected, version);
    if (this.#version === 0 || this.#expected <= this.#version || this.#isReading) return;
    this.#isReading = true;
    this.#parts.later(0, async () => {
      let retryMs = 0;
      try {
        const wanted = this.#expected;
        await this.refresh();
        // A version is announced after its commit, so one that this read does not know never will be.
        if (this.#expected === wanted) this.#expected = this.#version;
      } catch (error) {
        this.#parts.onError(error);
        retryMs = READ_RETRY_MS;
      } finally {
        this.#isReading = false;
      }
      if (this.#expected > this.#version) this.#parts.later(retryMs, () => this.expect(this.#expected));
    });
  }

  /** Reads the lobby again, at once. */
  async refresh(): Promise<void> {
    this.#show(await this.#parts.read());
  }

  #show(lobby: LobbyView): void {
    if (lobby.version > this.#version) {
      this.#version = lobby.version;
      this.#parts.show(lobby);
    }
    this.#reportDue();
  }

  #note(version: number, occurrences: readonly Occurrence[]): void {
    if (version <= this.#silentUpTo || this.#reported.has(version)) return;
    this.#waiting.set(version, occurrences);
    for (const oldest of this.#waiting.keys()) {
      if (this.#waiting.size <= VERSIONS_KEPT_MAX) break;
      this.#waiting.delete(oldest);
    }
  }

  #reportDue(): void {
    const due = [...this.#waiting.keys()].filter((version) => version <= this.#version);
    for (const version of due.toSorted((a, b) => a - b)) {
      const occurrences = this.#waiting.get(version)!;
      this.#waiting.delete(version);
      if (version <= this.#silentUpTo) continue;
      this.#reported.add(version);
      for (const occurrence of occurrences) this.#parts.onOccurrence(occurrence);
    }
    for (const oldest of this.#reported) {
      if (this.#reported.size <= VERSIONS_KEPT_MAX) break;
      this.#reported.delete(oldest);
      this.#silentUpTo = Math.max(this.#silentUpTo, oldest);
    }
  }
}
