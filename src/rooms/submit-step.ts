import { createHash } from "node:crypto";
import { z } from "zod";
import { transactIn } from "./mirror-room.ts";
import type { App } from "../app.ts";
import {
  admitAttempt,
  isOneThing,
  type SubmitAnswer,
  submitPlayerStep,
  submitShape,
} from "../domain/economy/quests/submissions.ts";
import {
  answerOnce,
  findResponse,
  IDEMPOTENCY_KEY_MAX,
  type KeyedRequest,
} from "../domain/kernel/idempotency.ts";
import type { Work } from "../domain/kernel/work.ts";
import { projectPlans, readPlan } from "../domain/progression/plan.ts";

const Name = z.string().min(1).max(64);
const IdempotencyKey = z
  .string()
  .max(IDEMPOTENCY_KEY_MAX)
  .regex(/^[\x21-\x7e]+$/, "must be visible ASCII characters");

/** A step of one of the player's own quests, and what is submitted for it. */
export const SubmitRequest = submitShape
  .extend({ quest: Name, step: Name, idempotencyKey: IdempotencyKey.optional() })
  .refine(...isOneThing);

type Submitting = Omit<z.output<typeof SubmitRequest>, "idempotencyKey">;
type PlayerRef = { projectId: string; playerId: string };

/**
 * Submits a step of the quest of the player to whom the room belongs, as the operation of REST does. What was
 * submitted with an `idempotencyKey` has the same answer when it comes again; a refusal is tried anew.
 * @throws DomainError as `submitPlayerStep`; CONFLICT IDEMPOTENCY_IN_PROGRESS,
 * UNPROCESSABLE_ENTITY IDEMPOTENCY_KEY_REUSED
 */
export const submitQuestStep = async (
  app: App,
  player: PlayerRef,
  { idempotencyKey: key, ...submitting }: z.output<typeof SubmitRequest>,
): Promise<SubmitAnswer> => {
  const { given, admit } = attempt(app, player, submitting);
  const ref = { projectId: player.projectId, id: player.playerId };
  const run = (work: Work): Promise<SubmitAnswer> => submitPlayerStep(work, ref, given);
  if (key !== undefined) return runOnce(app, player, { key, submitting, admit, run });
  await admit();
  return transactIn(app, player.projectId)(run);
};

const attempt = (
  app: App,
  { projectId, playerId }: PlayerRef,
  { quest: questRef, step: stepKey, ...body }: Submitting,
) => {
  const given = { questRef, stepKey, body };
  const { limiter, clock } = app;
  const parts = { transact: transactIn(app, projectId), limiter, clock };
  return { given, admit: () => admitAttempt(parts, { projectId, id: playerId }, given) };
};

type Once = {
  key: string;
  submitting: Submitting;
  admit: () => Promise<void>;
  run: (work: Work) => Promise<SubmitAnswer>;
};

/** Keys of a player are no other's; they are kept with those of the tenant. */
const keyedRequest = (
  { projectId, playerId }: PlayerRef,
  tenantId: string,
  { key, submitting }: Once,
): KeyedRequest => {
  const fingerprint = createHash("sha256").update(JSON.stringify(submitting)).digest("hex");
  return { scope: `player:${projectId}:${playerId}`, key, tenantId, fingerprint };
};

/** Runs a submission once for its key: the answer is stored in the transaction of the work. */
const runOnce = async (app: App, player: PlayerRef, once: Once): Promise<SubmitAnswer> => {
  const { secretBox } = app;
  const { projectId } = player;
  const { tenantId } = await transactIn(app, projectId)((work) => readPlan(work, projectId, projectPlans));
  const transact = app.transactAs({ role: "web", tenantId, projectIds: [projectId] });
  const request = keyedRequest(player, tenantId, once);
  const known = await transact((work) => findResponse(work, { secretBox, request }));
  if (known) return known.body as SubmitAnswer;
  await once.admit();
  const made = await transact((work) =>
    answerOnce(work, { secretBox, request }, async () => ({ status: 200, body: await once.run(work) })),
  );
  return made.body;
};
