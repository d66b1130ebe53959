import type { AttributeValue } from '@aws-sdk/client-dynamodb';

/** A condition expression with its names and values. */
export interface Condition {
  expression: string;
  names?: Record<string, string>;
  values?: Record<string, AttributeValue>;
}

/** The condition that the row does not exist. */
export const notExists: Condition = { expression: 'attribute_not_exists(pk)' };
/** The condition that the row exists. */
export const exists: Condition = { expression: 'attribute_exists(pk)' };

/** Joins conditions with AND. None may have a top-level OR. */
export function andAll(conditions: readonly Condition[]): Condition {
  return {
    expression: conditions.map((c) => c.expression).join(' AND '),
    names: Object.assign({}, ...conditions.map((c) => c.names)),
    values: Object.assign({}, ...conditions.map((c) => c.values)),
  };
}

/** An update as the SDK takes it. All attribute names are placeholders, because of reserved words. */
export interface Update {
  UpdateExpression: string;
  ExpressionAttributeNames: Record<string, string>;
  ExpressionAttributeValues: Record<string, AttributeValue>;
  ConditionExpression?: string;
}

/** Builds an update that sets the given attributes, removes the undefined ones, and keeps all others. */
export function updateOf(attributes: Record<string, AttributeValue | undefined>, condition?: Condition): Update {
  const names: Record<string, string> = { ...condition?.names };
  const values: Record<string, AttributeValue> = { ...condition?.values };
  const sets: string[] = [];
  const removes: string[] = [];
  for (const [name, value] of Object.entries(attributes)) {
    names[`#${name}`] = name;
    if (value === undefined) {
      removes.push(`#${name}`);
      continue;
    }
    values[`:${name}`] = value;
    sets.push(`#${name} = :${name}`);
  }
  return {
    UpdateExpression: [clause('SET', sets), clause('REMOVE', removes)].filter(Boolean).join(' '),
    ExpressionAttributeNames: names,
    ExpressionAttributeValues: values,
    ...(condition ? { ConditionExpression: condition.expression } : {}),
  };
}

/** Converts a condition to the SDK's form, without empty members. */
export function conditionOf(c: Condition): {
  ConditionExpression: string;
  ExpressionAttributeNames?: Record<string, string>;
  ExpressionAttributeValues?: Record<string, AttributeValue>;
} {
  return {
    ConditionExpression: c.expression,
    ...(c.names && Object.keys(c.names).length > 0 ? { ExpressionAttributeNames: c.names } : {}),
    ...(c.values && Object.keys(c.values).length > 0 ? { ExpressionAttributeValues: c.values } : {}),
  };
}

function clause(keyword: string, terms: string[]): string {
  return terms.length > 0 ? `${keyword} ${terms.join(', ')}` : '';
}
