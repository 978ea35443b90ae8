/* A circular, doubly linked list whose links live inside the members. The list itself is one link;
 * an empty list, and a member outside of any list, points to itself. Membership costs no memory
 * beyond the link, removal no search. */
#ifndef LQ_LIST_H
#define LQ_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lq_list {
    struct lq_list *next, *prev;
};

/* The structure of type `type` whose field `field` is at `pointer`. */
#define LQ_CONTAINER(pointer, type, field) ((type *)((uintptr_t)(pointer)-offsetof(type, field)))

static inline void lq_list_init(struct lq_list *list)
{
    list->next = list->prev = list;
}

static inline bool lq_list_is_empty(const struct lq_list *list)
{
    return list->next == list;
}

/* Puts `member`, which is in no list, at the end. */
static inline void lq_list_append(struct lq_list *list, struct lq_list *member)
{
    member->next = list;
    member->prev = list->prev;
    list->prev->next = member;
    list->prev = member;
}

/* Takes `member` out of its list; does nothing when it is in none. */
static inline void lq_list_remove(struct lq_list *member)
{
    member->prev->next = member->next;
    member->next->prev = member->prev;
    lq_list_init(member);
}

/* Takes the first member out and returns it; NULL when the list is empty. */
static inline struct lq_list *lq_list_take(struct lq_list *list)
{
    struct lq_list *first = list->next;
    if (first == list) {
        return NULL;
    }
    lq_list_remove(first);
    return first;
}

/* Moves all members of `from`, in their order, to the end of `list`; `from` is empty afterwards. */
static inline void lq_list_splice(struct lq_list *list, struct lq_list *from)
{
    if (lq_list_is_empty(from)) {
        return;
    }
    from->next->prev = list->prev;
    list->prev->next = from->next;
    from->prev->next = list;
    list->prev = from->prev;
    lq_list_init(from);
}

#endif
