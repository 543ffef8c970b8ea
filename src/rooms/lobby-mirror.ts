import type { LobbyChange, LobbyView, Occurrence } from "../domain/kernel/events/lobby-views.ts";
import type { LobbyNotice } from "../domain/kernel/events/topics.ts";

/** Versions whose occurrences a room remembers to have told. */
const VERSIONS_KEPT_MAX = 500;
/** Waits after a read that failed. */
const READ_RETRY_MS = 1_000;

export type LobbyMirrorParts = {
  /** The whole lobby as it is committed. */
  read(): Promise<LobbyView>;
  /** Shows a lobby that is newer than the one shown before. */
  show(lobby: LobbyView): void;
  /** Called once for each occurrence, after its version is shown. */
  tell(occurrence: Occurrence): void;
  later(delayMs: number, run: () => unknown): void;
  onError(error: unknown): void;
};

/**
 * What a room knows of its lobby. Each version may be told of twice, by the room's own commit and by the
 * relay, in any order, or not at all; what is shown never goes back, and what happened is told once.
 */
export class LobbyMirror {
  readonly #parts: LobbyMirrorParts;
  /** What happened at these versions, which is to be told once they are shown. */
  readonly #waiting = new Map<number, readonly Occurrence[]>();
  readonly #told = new Set<number>();
  /** Up to this version nothing is told any more. */
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

  /** The first lobby shown. What led to it is history and not told. */
  start(lobby: LobbyView): void {
    this.#silentUpTo = lobby.version;
    this.#show(lobby);
    this.expect(this.#expected);
  }

  /** What this room has committed itself. */
  apply({ lobby, occurrences }: LobbyChange): void {
    this.#note(lobby.version, occurrences);
    this.#show(lobby);
  }

  /** Word from the relay. */
  hear({ version, occurrences }: LobbyNotice): void {
    this.#note(version, occurrences);
    if (version <= this.#version) this.#tellDue();
    else this.expect(version);
  }

  /** Somebody saw that the lobby has reached `version`. */
  expect(version: number): void {
    this.#expected = Math.max(this.#expected, version);
    if (this.#version === 0 || this.#expected <= this.#version || this.#isReading) return;
    this.#isReading = true;
    this.#parts.later(0, async () => {
      let retryMs = 0;
      try {
        const wanted = this.#expected;
        await this.refresh();
        // A version is told of once it is committed, so one that this read does not know will never be.
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
    this.#tellDue();
  }

  #note(version: number, occurrences: readonly Occurrence[]): void {
    if (version <= this.#silentUpTo || this.#told.has(version)) return;
    this.#waiting.set(version, occurrences);
    for (const oldest of this.#waiting.keys()) {
      if (this.#waiting.size <= VERSIONS_KEPT_MAX) break;
      this.#waiting.delete(oldest);
    }
  }

  #tellDue(): void {
    const due = [...this.#waiting.keys()].filter((version) => version <= this.#version);
    for (const version of due.toSorted((a, b) => a - b)) {
      const occurrences = this.#waiting.get(version)!;
      this.#waiting.delete(version);
      if (version <= this.#silentUpTo) continue;
      this.#told.add(version);
      for (const occurrence of occurrences) this.#parts.tell(occurrence);
    }
    for (const oldest of this.#told) {
      if (this.#told.size <= VERSIONS_KEPT_MAX) break;
      this.#told.delete(oldest);
      this.#silentUpTo = Math.max(this.#silentUpTo, oldest);
    }
  }
}
