import type { AdventureIndex } from "./adventures/compile.ts";
import type { BoardIndex } from "./boards/holdings.ts";
import type { CompiledDefinitions } from "./project-settings.ts";
import type { QuestIndex } from "./quests/compile.ts";
import type { RuleSet } from "./running/compile.ts";
import type { LeftOut } from "./running/outcome.ts";
import type { CompiledSegment, SegmentIndex } from "./segments/membership.ts";
import type { Turn } from "./turn.ts";

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
