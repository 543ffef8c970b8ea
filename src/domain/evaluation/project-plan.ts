import type { LeftOut } from "./left-out.ts";
import type { BoardIndex } from "./boards/board-index.ts";
import type { RuleSet } from "./running/compile.ts";
import type { SegmentIndex } from "./segments/segment-index.ts";
import type { CompiledSegment } from "./segments/segment.ts";
import type { Game } from "./game.ts";
import type { Turn } from "./turn.ts";

/** What of a game is no definition of the economy. */
type NoEconomy = "projectId" | "timezone" | "settings" | "curve" | "boards" | "boardsByKey" | "rules";

/** A project's definitions of the economy, compiled; archived ones are not in it. */
export type Economy = Omit<Game, NoEconomy | "segments"> & {
  segments: ReadonlyMap<string, CompiledSegment>;
  /** The DYNAMIC ones, ready to be brought up to date. */
  segmentIndex: SegmentIndex;
  /** What should be evaluated and cannot be. */
  leftOut: readonly LeftOut[];
};

/** Everything of a project that evaluation needs, read and compiled once per config version. */
export type ProjectPlan = Omit<Game, keyof Economy | "rules"> &
  Economy & {
    tenantId: string;
    configVersion: number;
    isSandbox: boolean;
    boardIndex: BoardIndex;
    rules: RuleSet;
    /** Of its documents, as JSON. */
    bytes: number;
  };

/** A turn as the evaluator has it: with the project's rules and indexes. */
export type PlanTurn = Omit<Turn, "project"> & { project: ProjectPlan };
