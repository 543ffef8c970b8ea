import { z } from "zod";
import { definitionKind } from "../definitions/kind.ts";
import { Key } from "../rules/syntax.ts";

const shape = z.strictObject({
  key: Key,
  name: z.string().min(1).max(100),
});

/** A streak of a project. */
export const Streak = shape;
export type Streak = z.output<typeof Streak>;

/** A streak ready for evaluation. */
export type CompiledStreak = { id: string; definition: Streak; hears(eventType: string): boolean };

export const compileStreak = ({ id, definition }: { id: string; definition: Streak }): CompiledStreak => ({
  id,
  definition,
  hears: () => false,
});

export const streakKind = definitionKind<Streak>({
  kind: "streak",
  plural: "streaks",
  tag: "Streaks",
  schema: Streak,
  shape,
  max: 20,
});
