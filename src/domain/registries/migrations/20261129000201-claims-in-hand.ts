import { Migration } from "@mikro-orm/migrations";

/** What claims have in hand, committed before they evaluate it, and events that are evaluated apart. */
export class Migration20261129000201 extends Migration {
  override up(): void {
    for (const statement of [
      `create table event_claims (
        part smallint not null primary key,
        id uuid not null,
        event_ids uuid[] not null,
        is_evaluating boolean not null,
        asked_at timestamptz(3)) with (fillfactor = 50)`,
      `alter table event_claims enable row level security`,
      `alter table event_q add together smallint`,
      `alter table event_due add together smallint`,
    ])
      this.addSql(statement);
  }

  override down(): void {
    this.addSql(`alter table event_due drop together`);
    this.addSql(`alter table event_q drop together`);
    this.addSql(`drop table event_claims`);
  }
}
