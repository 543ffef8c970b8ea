import type { RawBuilder } from "kysely";
import type { TestApp } from "../app/app.ts";
import type { Game } from "../app/game.ts";

/** Where events of every type are brought about: a project of its own, whose events go to a webhook. */
export type Stage = {
  api: TestApp;
  game: Game;
  /** Changes what only time changes. */
  change(statement: RawBuilder<unknown>): Promise<void>;
  /** Waits until so many events of the type were sent to the webhook. */
  heard(type: string, count?: number): Promise<void>;
};

/** What brings events of some types about, as callers and time do. */
export type Scenario = { tells: readonly string[]; play(stage: Stage): Promise<void> };

/** Defines a rule that hears events of the type of its own key, and has it run. */
export const ruleOn = async (
  { game }: Stage,
  key: string,
  rule: { actions: object[]; conditions?: object; limits?: object },
): Promise<void> => {
  const triggers = [{ kind: "EVENT", eventTypes: [key] }];
  await game.make("/rules", { key, name: `On ${key}`, triggers, ...rule });
  const published = await game.post(`/rules/${key}/publish`);
  if (published.status !== 200) throw new Error(JSON.stringify(published.body));
};
