/** Thrown by an action that cannot be performed. Its rule then has no effect at all: ACTION_FAILED. */
export class RuleFailure extends Error {
  readonly actionId: string;

  constructor(actionId: string, message: string) {
    super(message);
    this.name = "RuleFailure";
    this.actionId = actionId;
  }
}
