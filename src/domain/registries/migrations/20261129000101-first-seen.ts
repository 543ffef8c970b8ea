import { Migration } from "@mikro-orm/migrations";

/** The time of a player's first event, where it is before the player was created: events may come late. */
export class Migration20261129000101 extends Migration {
  override up(): void {
    this.addSql(`alter table players add first_seen_at timestamptz(3)`);
    this.addSql(`update players set first_seen_at = last_seen_at where last_seen_at < created_at`);
  }

  override down(): void {
    this.addSql(`alter table players drop first_seen_at`);
  }
}
