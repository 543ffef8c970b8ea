import type { Json } from "../../../src/domain/kernel/events/events.ts";
import type { Board } from "../../../src/domain/evaluation/boards/board.ts";
import type { PlayerState } from "../../../src/domain/evaluation/player-state.ts";
import type { ProjectPlan } from "../../../src/domain/evaluation/project-plan.ts";
import { aPass, aPlan, aPlayerState } from "./plan.ts";

/** An active CUSTOM board, BEST and DESC, unless told otherwise. */
export const aBoard = (board: Partial<Board> = {}): Board => ({
  id: "b1",
  key: "board",
  periodId: "w1",
  resets: 0,
  resetAtMs: null,
  period: { kind: "ALL_TIME", timezone: "UTC" },
  status: "ACTIVE",
  ties: "EARLIEST",
  sort: "DESC",
  operator: "BEST",
  scoreDecimals: 0,
  metric: { source: "CUSTOM" },
  prizesForLate: false,
  ...board,
});

/** A player without XP, entries or history. */
export const aPlayer = (): PlayerState => aPlayerState({ id: "p1", projectId: "j1", createdAt: new Date(0) });

export type TurnOptions = {
  player?: PlayerState;
  type?: string;
  at?: number;
  properties?: Json;
  boards?: readonly Board[];
};

/** A turn at `at` ms over a player, whose effects go nowhere, and the warnings it collects. */
export const aTurn = (options: TurnOptions = {}) => {
  const { player = aPlayer(), type = "x", at = 1_000, properties = {}, boards = [] } = options;
  const curve = { type: "LINEAR", params: {}, thresholds: [0] } as unknown as ProjectPlan["curve"];
  const plan = aPlan({ projectId: "j1", curve, boards });
  const event = { id: "e1", type, at, properties };
  const { turn, warnings } = aPass({ plan, player, event, nowMs: 10_000 });
  return { turn, player, warnings };
};
