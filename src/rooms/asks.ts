import { matchMaker } from "@colyseus/core";
import type { App } from "../app.ts";
import { DomainError } from "../domain/kernel/errors.ts";
import { newId } from "../domain/kernel/ids.ts";
import { RESPONSE_TIMEOUT_MS } from "../domain/kernel/live-rooms.ts";
import { answersOf, type Answers } from "./inspect.ts";

type Question = { id: string; replyTo: string; name: keyof Answers; args: readonly string[] };
type Reply = { id: string; value?: unknown; hasFailed?: true };
type Waiting = { resolve: (value: unknown) => void; reject: (error: Error) => void };

const questionTopic = (processId: string): string => `rooms-question:${processId}`;
const replyTopic = (asker: string): string => `rooms-reply:${asker}`;

const silent = (): DomainError =>
  new DomainError("SERVICE_UNAVAILABLE", `The process did not answer within ${RESPONSE_TIMEOUT_MS} ms`, {
    reason: "PROCESS_SILENT",
    retryAfterSeconds: 1,
  });

const answerOne = (answers: Answers, { name, args }: Question): unknown =>
  (answers[name] as (...given: readonly string[]) => unknown)(...args);

/** Answers what other processes ask of the rooms of this one. @returns how to stop it */
export const answerPeers = (app: App, version: string): Promise<() => void> => {
  const answers = answersOf(app, version);
  return app.topics.subscribe(questionTopic(matchMaker.processId), (question: Question) => {
    const { id, replyTo } = question;
    if (!Object.hasOwn(answers, question.name)) return;
    let reply: Reply;
    try {
      reply = { id, value: answerOne(answers, question) };
    } catch (err) {
      app.log.error({ err, question: question.name }, "what a process asked could not be answered");
      reply = { id, hasFailed: true };
    }
    app.topics.publish(replyTopic(replyTo), reply);
  });
};

/** Asks the processes that hold rooms, this one among them. */
export class Asker {
  readonly #topics: App["topics"];
  readonly #answers: Answers;
  readonly #id = newId();
  readonly #waiting = new Map<string, Waiting>();
  #listening: Promise<unknown> | undefined;

  constructor(app: Pick<App, "config" | "clock" | "topics">, version: string) {
    this.#topics = app.topics;
    this.#answers = answersOf(app, version);
  }

  /** @throws DomainError SERVICE_UNAVAILABLE PROCESS_SILENT */
  async ask<K extends keyof Answers>(
    processId: string,
    name: K,
    ...args: Parameters<Answers[K]>
  ): Promise<ReturnType<Answers[K]>> {
    if (processId === matchMaker.processId)
      return answerOne(this.#answers, { id: "", replyTo: "", name, args }) as ReturnType<Answers[K]>;
    const id = newId();
    let timer: NodeJS.Timeout | undefined;
    const answered = new Promise<unknown>((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      timer = setTimeout(() => reject(silent()), RESPONSE_TIMEOUT_MS);
    });
    void this.#listen().then(
      () => this.#topics.publish(questionTopic(processId), { id, replyTo: this.#id, name, args }),
      // The time-out tells.
      () => undefined,
    );
    try {
      return (await answered) as ReturnType<Answers[K]>;
    } finally {
      clearTimeout(timer);
      this.#waiting.delete(id);
    }
  }

  #listen(): Promise<unknown> {
    this.#listening ??= this.#topics
      .subscribe(replyTopic(this.#id), (reply: Reply) => this.#hear(reply))
      .catch((error: unknown) => {
        this.#listening = undefined;
        throw error;
      });
    return this.#listening;
  }

  #hear({ id, value, hasFailed }: Reply): void {
    const waiting = this.#waiting.get(id);
    if (hasFailed) waiting?.reject(silent());
    else waiting?.resolve(value);
  }
}
