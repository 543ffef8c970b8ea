import type { Cycle } from "./graph.ts";

const pathOf = ({ path }: Cycle): string => path.join(" → ");

export const cycleText = (cycle: Cycle): string => `can set itself off: ${pathOf(cycle)}`;

export const LOOP_ADVICE = "give a rule on the way a limit, a cooldown or stopOnMatch";
