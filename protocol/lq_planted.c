#include "lq_planted.h"

int lq_planted;
