import type { AdventureIndex } from "./adventures/compile.ts";
import type { BoardIndex } from "./boards/holdings.ts";
import type { CompiledDefinitions } from "./project-settings.ts";
import type { QuestIndex } from "./quests/compile.ts";
import type { RuleSet } from "./running/compile.ts";
import type { CompiledSegment, SegmentIndex } from "./segments/membership.ts";
import type { Turn } from "./turn.ts";

/**
 * Maximum bytes of a stored document, compressed or not, that is read for evaluation. Larger documents are
 * rejected when saved, but those from before there were limits may have any size.
 */
export const STORED_MAX_BYTES = 256 * 1024;

/** Maximum bytes as JSON of a document that is compiled: a stored one may be compressed. */
export const DOCUMENT_MAX_BYTES = 1024 * 1024;

/** A definition left out of evaluation because it is too large or does not compile. */
export type LeftOut = { kind: string; id: string; key: string; version: number; why: string };

export const TOO_LARGE_TO_RUN = "it is too large";

/** Returns why a definition that threw `error` is left out. */
export const whyNot = (error: unknown): string =>
  error instanceof RangeError ? "it is nested too deep" : `it cannot be compiled: ${String(error)}`;

/** Fields that are not definitions of the economy. */
type NoEconomy = "projectId" | "timezone" | "settings" | "curve" | "boards" | "boardsByKey" | "rules";

/** A project's compiled definitions of the economy, without archived ones. */
export type Economy = Omit<CompiledDefinitions, NoEconomy | "segments" | "adventures"> & {
  segments: ReadonlyMap<string, CompiledSegment>;
  quests: QuestIndex;
  adventures: AdventureIndex;
  /** The DYNAMIC segments, compiled to be refreshed. */
  segmentIndex: SegmentIndex;
  /** Definitions that could not be compiled. */
  leftOut: readonly LeftOut[];
};

/** Everything of a project that evaluation needs, read and compiled once per config version. */
export type ProjectPlan = Omit<CompiledDefinitions, keyof Economy | "rules"> &
  Economy & {
    tenantId: string;
    configVersion: number;
    /** How far the clock of the project is ahead of the server's, in ms; see `atProjectTime`. */
    clockAheadMs: number;
    isSandbox: boolean;
    boardIndex: BoardIndex;
    rules: RuleSet;
    /** Of its documents, as JSON. */
    bytes: number;
  };

/** A turn with the project's rules and indexes, for the evaluator. */
export type PlanTurn = Omit<Turn, "project"> & { project: ProjectPlan };
