import { NIL_ID } from "../../kernel/ids.ts";

/** The commits of a project in a partition of the outbox. */
export type Backlog = { part: number; projectId: string };

/** Maximum number of backlogs known to a process; further ones stay in the shared rounds. */
const BACKLOGS_MAX = 100;
/** Number of commits from which a project is a backlog, although a round has taken all that it has read. */
export const BACKLOG_LEAST = 10;
/** Bytes that a project has in a shared round of one partition, at most. */
export const SHARE_BYTES = 64 * 1024;
/** The longest rest from a backlog that another process relays, in ms. */
const BACKLOG_REST_MAX_MS = 5_000;

const keyOf = ({ part, projectId }: Backlog): string => `${part}:${projectId}`;

/**
 * The backlogs that a process relays apart from its shared rounds: more waits there than a shared round takes
 * of a project. Shared rounds leave them out, so they contain only little of each project. The state only
 * decides in which round something is relayed, and may be lost.
 */
export class Backlogs {
  readonly #restMs = new Map<string, number>();
  readonly #known = new Map<string, Backlog>();

  /** All backlogs, of any partition. */
  get all(): readonly Backlog[] {
    return [...this.#known.values()];
  }

  has(backlog: Backlog): boolean {
    return this.#known.has(keyOf(backlog));
  }

  /** @returns whether it is relayed apart from now on */
  add(backlog: Backlog): boolean {
    if (this.#known.size >= BACKLOGS_MAX) return false;
    this.#known.set(keyOf(backlog), backlog);
    return true;
  }

  /** Returns a backlog to the shared rounds. */
  end(backlog: Backlog): void {
    this.#known.delete(keyOf(backlog));
    this.#restMs.delete(keyOf(backlog));
  }

  /**
   * Returns how long to rest before the next round, in ms, after one that took `tookMs`. If another process
   * has relayed most of the same commits, the rounds of both are the same work done twice: whoever was later
   * rests, each time for longer.
   */
  restAfter(backlog: Backlog, { tookMs, wasOurs }: { tookMs: number; wasOurs: boolean }): number {
    const key = keyOf(backlog);
    if (wasOurs) this.#restMs.delete(key);
    else
      this.#restMs.set(
        key,
        Math.min(BACKLOG_REST_MAX_MS, Math.max(tookMs, 2 * (this.#restMs.get(key) ?? 0))),
      );
    return this.#restMs.get(key) ?? 0;
  }
}

/** Maximum number of outbox rows of all partitions, and bytes of their data, relayed in one round. */
export const RELAY_ROWS = 4_000;
export const RELAY_BYTES = 2 * 1024 * 1024;

const WHOLE: RoundSize = { rows: RELAY_ROWS, bytes: RELAY_BYTES };

/**
 * How long a project pauses whose smallest round has failed, in ms: initially, and at most. The pause only
 * grows if rounds of others have succeeded meanwhile: otherwise a shared dependency may be unavailable.
 */
const REST_MS = 1_000;
const REST_MAX_MS = 60_000;
/** Maximum number of projects with rounds of their own that a process remembers; the oldest is evicted. */
const APART_MAX = 1_000;

export type RoundSize = { rows: number; bytes: number };

/** Scope of a round: rows of one project, or of all but some. */
export type RoundPlan = RoundSize & { only: string | undefined; without: readonly string[] };

type Apart = RoundSize & {
  hasFailedAlone: boolean;
  restMs: number;
  restsUntilMs: number;
  /** Number of rounds that had succeeded when its last pause began. */
  gone: number;
};

/** A project's own round has at least one row and one byte. */
const halved = (value: number): number => Math.max(1, Math.floor(value / 2));

/**
 * Schedules the relay of a process. All projects share a round until one fails: then each project that was in
 * it has rounds of its own, alternating with those of the others, until one has succeeded. A project whose
 * own round fails is retried with half of its size, down to one row, and pauses when that fails as well; each
 * successful round is followed by one twice as large. Its state only determines what is tried next, and may
 * be lost.
 */
export class RelaySchedule {
  readonly #nowMs: () => number;
  readonly #apart = new Map<string, Apart>();
  /** The project after which the next round of a partition begins. */
  readonly #after = new Map<number, string>();
  #wasShared = false;
  /** Number of successful rounds with rows. */
  #gone = 0;

  /** @param nowMs a monotonic clock */
  constructor(nowMs: () => number = () => performance.now()) {
    this.#nowMs = nowMs;
  }

  /** Returns the scope of the next round. */
  next(): RoundPlan {
    const only = this.#wasShared ? this.#ready() : undefined;
    this.#wasShared = only === undefined;
    if (only === undefined) return { ...WHOLE, only, without: [...this.#apart.keys()] };
    const { rows, bytes } = this.#apart.get(only)!;
    return { rows, bytes, only, without: [] };
  }

  /** Whether a project waits for a round of its own. */
  get hasReady(): boolean {
    return this.#ready() !== undefined;
  }

  /** Returns the project after which a shared round begins in a partition. */
  placeOf(part: number): string {
    return this.#after.get(part) ?? NIL_ID;
  }

  /** Sets the project after which the partition's next shared round begins; undefined: at the first one. */
  goOnBehind(part: number, project: string | undefined): void {
    if (project === undefined) this.#after.delete(part);
    else this.#after.set(part, project);
  }

  /** Records a successful round with a number of `rows`. */
  done({ only }: RoundPlan, rows: number): void {
    if (rows > 0) this.#gone++;
    const apart = only === undefined ? undefined : this.#apart.get(only);
    if (only === undefined || apart === undefined) return;
    this.#apart.delete(only);
    // Its rows may be in partitions that another process is relaying: it is checked once more.
    if (rows === 0 && apart.hasFailedAlone)
      this.#rest(only, { ...apart, hasFailedAlone: false, restMs: REST_MS });
    if (rows === 0 || (apart.rows >= RELAY_ROWS && apart.bytes >= RELAY_BYTES)) return;
    const size = {
      rows: Math.min(RELAY_ROWS, apart.rows * 2),
      bytes: Math.min(RELAY_BYTES, apart.bytes * 2),
    };
    this.#apart.set(only, { ...apart, ...size, restMs: REST_MS, restsUntilMs: 0 });
  }

  /** Records a failed round, its projects and its size. */
  failed({ only }: RoundPlan, projects: Iterable<string>, had: RoundSize): void {
    if (only === undefined) {
      for (const project of projects) this.setApart(project);
      return;
    }
    const apart = this.#apart.get(only);
    if (!apart) return;
    this.#apart.delete(only);
    const failed = { ...apart, hasFailedAlone: true };
    if (apart.rows === 1) {
      const isLonger = apart.restsUntilMs > 0 && apart.gone < this.#gone;
      const restMs = isLonger ? Math.min(REST_MAX_MS, apart.restMs * 2) : apart.restMs;
      return this.#rest(only, { ...failed, restMs });
    }
    const rows = halved(Math.min(apart.rows, had.rows));
    const bytes = halved(Math.min(apart.bytes, had.bytes));
    this.#keep(only, { ...failed, rows, bytes });
  }

  /** Gives a project rounds of its own. */
  setApart(project: string): void {
    this.#keep(project, {
      ...WHOLE,
      hasFailedAlone: false,
      restMs: REST_MS,
      restsUntilMs: 0,
      gone: this.#gone,
    });
  }

  /** Pauses a project for a while. */
  #rest(project: string, apart: Apart): void {
    const restsUntilMs = this.#nowMs() + apart.restMs;
    this.#keep(project, { ...apart, restsUntilMs, gone: this.#gone });
  }

  #keep(project: string, apart: Apart): void {
    this.#apart.set(project, apart);
    const [first] = this.#apart.keys();
    if (this.#apart.size > APART_MAX && first !== undefined) this.#apart.delete(first);
  }

  #ready(): string | undefined {
    const nowMs = this.#nowMs();
    for (const [project, { restsUntilMs }] of this.#apart) if (restsUntilMs <= nowMs) return project;
    return undefined;
  }
}
