import type { Work } from "../../kernel/work.ts";

/** A violated invariant. `invariant` names the rule; see docs/ARCHITECTURE.md. */
export type Finding = {
  invariant: string;
  projectId: string;
  playerId: string | null;
  message: string;
  /** Whether it is derived data that `--repair` restores from its source. */
  isRepairable: boolean;
};

/** Players of one project, locked for the transaction, so that nothing changes during the checks. */
export type Page = { projectId: string; playerIds: readonly string[] };

/** Checks one page. `repair` restores derived data; findings are reported either way. */
export type Check = (work: Work, page: Page, repair: boolean) => Promise<Finding[]>;

/** The page's ids as a parameter of `any(…::uuid[])`. */
export const idsOf = ({ playerIds }: Page): string => `{${playerIds.join(",")}}`;
