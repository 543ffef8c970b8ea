import { Migration } from "@mikro-orm/migrations";
import { byProject } from "./row-security.ts";

/** When players were in segments that they have left; of projects that were there before, from now on. */
export class Migration20261126000081 extends Migration {
  override up(): void {
    for (const statement of [
      `create table segment_spells (
        project_id uuid not null,
        player_id uuid not null,
        id uuid not null,
        segment_key text not null,
        entered_at timestamptz(3) not null,
        left_at timestamptz(3) not null,
        primary key (project_id, player_id, id))`,
      `create index segment_spells_segment_idx on segment_spells (project_id, segment_key, left_at)`,
      `create index segment_spells_left_idx on segment_spells (left_at)`,
      ...byProject("segment_spells"),
      `alter table projects add column spells_since timestamptz(3)`,
      `update projects set spells_since = now()`,
    ])
      this.addSql(statement);
  }

  override down(): void {
    this.addSql(`alter table projects drop column spells_since`);
    this.addSql(`drop table segment_spells`);
  }
}
